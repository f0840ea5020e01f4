import { isSubscribed, recordEvent } from '../queue/events.ts'
import type { Queue } from '../queue/queue.ts'
import { newOrderedId, type RandomBytes } from '../storage/ids.ts'
import type { Row } from '../storage/rows/rows.ts'
import type { Announce, Declaration, Link } from './declaration.ts'

/** Part of the statement of each change: whether the event has a subscriber. */
export const hasSubscriber = ({ noun }: Pick<Declaration, 'noun'>) => ({
  created: isSubscribed(`${noun}.created`),
  updated: isSubscribed(`${noun}.updated`),
  deleted: isSubscribed(`${noun}.deleted`),
})

interface Sources {
  queue: Queue
  random: RandomBytes
}

/** Who may receive a resource's events: everyone who may read it. */
export const audienceOf = ({ readScope }: Pick<Declaration, 'readScope'>): string => readScope ?? 'any'

/** Returns the function that publishes the events of one resource. */
export function eventPublisher({ queue, random }: Sources, declaration: Declaration): Announce {
  const audience = audienceOf(declaration)
  return (tx, happening, row, { clientId, subject }, now) =>
    recordEvent(tx, queue, {
      ...{ id: newOrderedId('msg', random, now), type: `${declaration.noun}.${happening}`, audience, createdAt: now },
      ...{ ownerClient: clientId, ownerSubject: subject, callbackUrl: null },
      body: happening === 'deleted' ? { id: row.id } : plainView(row as Row, declaration),
    })
}

/** A row as everyone who may read the resource sees it: without hidden fields, validators and absent fields. */
export function plainView(row: Row, { hides, links }: Pick<Declaration, 'hides' | 'links'>): Record<string, unknown> {
  const { revision: _, sharesSecond: __, ...fields } = row
  const shown = Object.entries(fields).filter(([name, value]) => value !== null && !hides?.fields.includes(name))
  const linked: Record<string, Link> | undefined = links?.(row)
  return { ...Object.fromEntries(shown), ...(linked && { _links: linked }) }
}
