import { exampleOf } from '../openapi/examples.ts'
import { plain, type Schema, wholeOf } from '../openapi/schemas.ts'
import { type EventKind, eventInserter, recordEvent } from '../queue/events.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { newOrderedId, type RandomBytes } from '../storage/ids.ts'
import type { Row } from '../storage/rows/rows.ts'
import { presenter } from './computed/present.ts'
import type { Announce, Declaration, Link } from './declaration.ts'
import { idTypes } from './id-types.ts'
import { representation } from './representation.ts'

interface EventDeps {
  db: Database
  queue: Queue
  random: RandomBytes
  /** The time zone of `'today'`. */
  zone?: string | undefined
}

/** Returns the scope required to receive a resource's events: its read scope, or `any` if reading is public. */
export const audienceOf = ({ readScope }: Pick<Declaration, 'readScope'>): string => readScope ?? 'any'

/** Returns the facts about a row that access rules compare. */
export type FactsOf = (tx: Queryable, row: Readonly<Record<string, unknown>>) => Promise<Record<string, unknown>>

/**
 * Returns the function that publishes the events of one resource; with access rules, each event stores the facts of its
 * row.
 */
export function eventPublisher(
  { db, queue, random, zone }: EventDeps,
  declaration: Declaration,
  factsOf: FactsOf = async (_, row) => ({ ...row }),
): Announce {
  const audience = audienceOf(declaration)
  const insert = eventInserter(db)
  const presented = (row: Row, now: string) =>
    presenter(declaration, { zone, now: () => Date.parse(now) })?.present(row) ?? row
  return async (tx, change, row, { clientId, subject, trace }, now) => {
    const event = {
      ...{ id: newOrderedId('msg', random, now), type: `${declaration.noun}.${change}`, audience, createdAt: now },
      ...{ ownerClient: clientId, ownerSubject: subject, callbackUrl: null, trace },
      body: change === 'deleted' ? { id: row.id } : publicFields(presented(row as Row, now), declaration),
      facts: declaration.access && (await factsOf(tx, { ...row })),
    }
    await recordEvent(tx, queue, event, insert)
  }
}

/** Returns the fields that everyone with read access sees, without concealed fields, absent fields and validators. */
export function publicFields(
  row: Row,
  { concealed, links }: Pick<Declaration, 'concealed' | 'links'>,
): Record<string, unknown> {
  const { revision: _, sharesSecond: __, ...fields } = row
  const visible = Object.entries(fields).filter(
    ([name, value]) => (value ?? null) !== null && !concealed.includes(name),
  )
  const linked: Record<string, Link> | undefined = links?.(row)
  return { ...Object.fromEntries(visible), ...(linked && { _links: linked }) }
}

/** Returns the events of a resource by type: `note.created`, `note.updated`, `note.deleted`. */
export function eventKindsOf(declaration: Declaration): Record<string, EventKind> {
  const { noun, concealed, ids } = declaration
  const { eventSchema, example: id } = idTypes[ids]
  const idSchema = { type: 'object', properties: { id: eventSchema }, required: ['id'] }
  const own = ['id', ...Object.keys(declaration.shownBody.properties), 'createdAt', 'updatedAt']
  const names = declaration.access ? [...own, 'createdBy'] : own
  const visible = [...names.filter((name) => !concealed.includes(name)), ...(declaration.links ? ['_links'] : [])]
  const { examples, ...schema } = wholeOf(plain(representation(declaration, visible)) as Schema)
  const [example = exampleOf(schema) ?? { id }] = (examples ?? []) as object[]
  const audience = audienceOf(declaration)
  return {
    [`${noun}.created`]: { description: `A ${noun} was created`, example, schema, audience },
    [`${noun}.updated`]: { description: `A ${noun} was changed or replaced`, example, schema, audience },
    [`${noun}.deleted`]: { description: `A ${noun} was deleted`, example: { id }, schema: idSchema, audience },
  }
}
