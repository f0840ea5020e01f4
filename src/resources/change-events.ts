import { exampleOf } from '../openapi/examples.ts'
import { plain, type Schema, wholeOf } from '../openapi/schemas.ts'
import { type EventKind, eventInserter, recordEvent } from '../queue/events.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database } from '../storage/database.ts'
import { newOrderedId, type RandomBytes } from '../storage/ids.ts'
import type { Row } from '../storage/rows/rows.ts'
import { presenter } from './computed/present.ts'
import type { Declaration, Link } from './declaration.ts'
import { idTypes } from './id-types.ts'
import { representation } from './representation.ts'
import { streamSubscribers, webhookSubscribers } from './resource-rows.ts'
import { changeLogger, type FactsOf } from './streams/record-change.ts'
import type { Announce } from './writes/hooks.ts'

const allSubscribers = webhookSubscribers + streamSubscribers

interface EventDeps {
  db: Database
  queue: Queue
  random: RandomBytes
  /** The time zone of `'today'`. */
  zone?: string | undefined
}

/** Returns the scope required to receive a resource's events: its read scope, or `any` if reading is public. */
export const audienceOf = ({ readScope }: Pick<Declaration, 'readScope'>): string => readScope ?? 'any'

/**
 * Returns the function that publishes the changes of one resource to webhooks and event streams. If the resource has
 * access rules, each webhook event is stored with the facts of its row.
 */
export function eventPublisher(
  { db, queue, random, zone }: EventDeps,
  declaration: Declaration,
  factsOf: FactsOf = async (_, row) => ({ ...row }),
): Announce {
  const audience = audienceOf(declaration)
  const insert = eventInserter(db)
  const logChange = changeLogger(db, declaration, factsOf)
  const presented = (row: Row, now: string) =>
    presenter(declaration, { zone, now: () => Date.parse(now) })?.present(row) ?? row
  return async (tx, change, row, { clientId, subject, trace }, now, subscribed = allSubscribers) => {
    if (subscribed >= streamSubscribers) await logChange(tx, change, row, now)
    if (subscribed === streamSubscribers) return
    const event = {
      ...{ id: newOrderedId('msg', random, now), type: `${declaration.noun}.${change}`, audience, createdAt: now },
      ...{ ownerClient: clientId, ownerSubject: subject, callbackUrl: null, trace },
      body: change === 'deleted' ? { id: row.id } : publicFields(presented(row as Row, now), declaration),
      facts: declaration.access && (await factsOf(tx, { ...row })),
    }
    await recordEvent(tx, queue, event, insert)
  }
}

/**
 * Returns the fields of a row that everyone with read access sees; omits concealed fields, absent fields and
 * validators.
 */
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
