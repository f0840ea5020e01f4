import { type Static, type TObject, Type } from 'typebox'
import type { Collection, Declaration } from '../resources/declaration.ts'
import { DefinitionError } from '../startup-errors.ts'
import type { IdType } from '../storage/ids.ts'
import type { CodeContext, CodeRow, RowCondition } from './context-types.ts'
import { type Made, made } from './made.ts'

/** The result of `action()`. */
export interface Action extends Made<'action'> {
  readonly of: Declaration
  readonly name: string
  /**
   * True for an action on a row (`POST /invoices/{id}/send`), false for one on the collection (`POST /invoices/send`).
   */
  readonly isOfRow: boolean
  readonly summary: string
  readonly input: TObject | undefined
  readonly output: TObject | undefined
  readonly when: unknown
  readonly run: (...given: unknown[]) => unknown
}

interface Described<I extends TObject, O extends TObject> {
  /** The schema of the request body; without it, the body is ignored. */
  input?: I
  /** The schema of the response. Without it, an action on a row responds with the row. */
  output?: O
  /** The summary in the OpenAPI document. */
  summary?: string
}

type Result<O extends TObject> = [O] extends [never] ? unknown : Static<O> | Promise<Static<O>>

/** The options of an action on one row. */
export interface RowAction<
  B extends TObject,
  C extends string,
  D extends string,
  Ids extends IdType,
  I extends TObject,
  O extends TObject,
> extends Described<I, O> {
  /** The condition that the row must meet; otherwise, the response is a 409. */
  when?: RowCondition<B, C, Ids>
  run: (row: CodeRow<B, C, D, Ids>, input: Static<I>, context: CodeContext) => Result<O>
}

/** The options of an action on the whole collection. */
export interface CollectionAction<I extends TObject, O extends TObject> extends Described<I, O> {
  on: 'collection'
  output: O
  run: (input: Static<I>, context: CodeContext) => Result<O>
}

const nameForm = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/

/**
 * Declares an action: `POST /invoices/{id}/send`, or `POST /invoices/send` with `on: 'collection'`. It runs in the
 * transaction of the request. Throws `DefinitionError` if the declaration is invalid.
 */
export function action<
  B extends TObject,
  C extends string,
  G extends string,
  D extends string,
  Ids extends IdType,
  O extends TObject,
  I extends TObject = TObject,
>(of: Collection<B, C, G, D, Ids>, name: string, options: CollectionAction<I, O>): Action
export function action<
  B extends TObject,
  C extends string,
  G extends string,
  D extends string,
  Ids extends IdType,
  I extends TObject = TObject,
  O extends TObject = never,
>(of: Collection<B, C, G, D, Ids>, name: string, options: RowAction<B, C, D, Ids, I, O>): Action
export function action(of: Collection, name: string, options: object): Action {
  const { declaration } = of ?? {}
  const label = `action ${String(name)} of ${declaration?.path}`
  const { input, output, summary, run, when, on } = (options ?? {}) as Partial<Action> & { on?: unknown }
  const errors = [
    ...(typeof name === 'string' && nameForm.test(name) ? [] : [`${label}: the name must be such as 'send'`]),
    ...(declaration?.view ? [`${label}: name the collection, not a view of it`] : []),
    ...(typeof run === 'function' ? [] : [`${label}: it needs run`]),
    ...(on === undefined || on === 'collection' ? [] : [`${label}: on can only be 'collection'`]),
    ...(on !== undefined && output === undefined ? [`${label}: an action of the collection needs an output`] : []),
    ...([input, output].every((schema) => schema === undefined || Type.IsObject(schema))
      ? []
      : [`${label}: input and output must be created with Type.Object()`]),
    ...(on !== undefined && when !== undefined ? [`${label}: an action of the collection has no when`] : []),
  ]
  if (errors.length > 0) throw new DefinitionError(errors)
  return made('action', label, {
    ...{ of: declaration as Declaration, name, isOfRow: on === undefined, input, output, when },
    summary: summary ?? `${name.replaceAll('-', ' ')} ${on === undefined ? declaration?.noun : declaration?.name}`,
    run: run as Action['run'],
  })
}
