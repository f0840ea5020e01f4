import { type TObject, type TSchema, Type } from 'typebox'
import type { Collection, Declaration } from '../resources/declaration.ts'
import { DefinitionError } from '../startup-errors.ts'
import type { IdOf, IdType } from '../storage/ids.ts'
import { type Made, made } from './made.ts'

interface OwnEvent<S extends TSchema> extends Made<'event'> {
  /** The event type, such as `invoice.sent`. */
  readonly type: string
  readonly schema: S
  readonly description: string
  /** The scope that subscribers need; null if the collection can be read without a token. */
  readonly scope: string | null
}

/** An event about a row. Only subscribers who can read the row receive it. */
export interface EventOfRow<S extends TSchema = TSchema, Id = unknown> extends OwnEvent<S> {
  readonly of: Declaration
  /** Exists only for type inference; never set. */
  readonly '~id'?: Id
}

/** An event without a row. Only subscribers with the event's scope receive it. */
export interface EventOfScope<S extends TSchema = TSchema> extends OwnEvent<S> {
  readonly scope: string
}

export type AnyEvent = EventOfRow | EventOfScope

interface EventDetails {
  description?: string
}

const nameForm = /^[a-z][a-z0-9]*([-_][a-z0-9]+)*$/
const typeForm = /^[a-z][a-zA-Z0-9]*\.[a-z][a-z0-9]*([-_][a-z0-9]+)*$/
const builtIn = ['created', 'updated', 'deleted']

/**
 * Declares an event: `event(invoices, 'sent', schema)` for rows of a collection, with the type `invoice.sent`, or
 * `event('ledger.closed', schema, { scope: 'invoices:read' })`. Throws `DefinitionError` if the declaration is invalid.
 */
export function event<
  B extends TObject,
  C extends string,
  G extends string,
  D extends string,
  Ids extends IdType,
  S extends TSchema,
>(of: Collection<B, C, G, D, Ids>, name: string, schema: S, details?: EventDetails): EventOfRow<S, IdOf<Ids>>
export function event<S extends TSchema>(
  type: string,
  schema: S,
  details: EventDetails & { scope: string },
): EventOfScope<S>
export function event(of: Collection | string, ...rest: unknown[]): AnyEvent {
  if (typeof of === 'string') return eventOfScope(of, rest[0] as TSchema, rest[1] as { scope: string })
  const [name, schema, details] = rest as [string, TSchema, EventDetails?]
  return eventOfRow(of.declaration, name, schema, details)
}

function eventOfRow(of: Declaration, name: string, schema: TSchema, { description }: EventDetails = {}): EventOfRow {
  const label = `event ${String(name)} of ${of.path}`
  const errors = [
    ...(typeof name === 'string' && nameForm.test(name)
      ? []
      : [`${label}: the name must be lower-case, such as 'sent'`]),
    ...(builtIn.includes(name) ? [`${label}: every collection has this event already`] : []),
    ...(of.view ? [`${label}: name the collection, not a view of it`] : []),
    ...schemaErrors(label, schema),
  ]
  if (errors.length > 0) throw new DefinitionError(errors)
  const type = `${of.noun}.${name}`
  return made('event', label, {
    type,
    schema,
    of,
    scope: of.readScope,
    description: description ?? `A ${of.noun} was ${name}`,
  })
}

function eventOfScope(type: string, schema: TSchema, details: EventDetails & { scope: string }): EventOfScope {
  const label = `event ${type}`
  const { scope, description = `The event ${type}` } = details ?? {}
  const errors = [
    ...(typeForm.test(type) ? [] : [`${label}: the type must be such as 'ledger.closed'`]),
    ...(typeof scope === 'string' ? [] : [`${label}: it needs the scope of its receivers, such as 'invoices:read'`]),
    ...schemaErrors(label, schema),
  ]
  if (errors.length > 0) throw new DefinitionError(errors)
  return made('event', label, { type, schema, scope, description })
}

const schemaErrors = (label: string, schema: unknown): string[] =>
  Type.IsObject(schema) ? [] : [`${label}: its schema must be created with Type.Object()`]
