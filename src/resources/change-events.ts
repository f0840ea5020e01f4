import { isSubscribed, recordEvent } from '../queue/events.ts'
import type { Queue } from '../queue/queue.ts'
import { newOrderedId, type RandomBytes } from '../storage/ids.ts'
import type { Row } from '../storage/rows/rows.ts'
import type { Announce, Declaration, Link } from './declaration.ts'

/** For the statement of each change: whether anybody listens. */
export const hasSubscriber = ({ noun }: Pick<Declaration, 'noun'>) => ({
  created: isSubscribed(`${noun}.created`),
  updated: isSubscribed(`${noun}.updated`),
  deleted: isSubscribed(`${noun}.deleted`),
})

interface Sources {
  queue: Queue
  random: RandomBytes
}

/** Who may hear of a resource: whoever may read it. */
export const audienceOf = ({ readScope }: Pick<Declaration, 'readScope'>): string => readScope ?? 'any'

/** The announcer of one resource. */
export function eventPublisher({ queue, random }: Sources, declaration: Declaration): Announce {
  const audience = audienceOf(declaration)
  return (tx, happening, row, { clientId, subject }, now) =>
    recordEvent(tx, queue, {
      ...{ id: newOrderedId('msg', random, now), type: `${declaration.noun}.${happening}`, audience, createdAt: now },
      ...{ ownerClient: clientId, ownerSubject: subject, callbackUrl: null },
      body: happening === 'deleted' ? { id: row.id } : plainView(row as Row, declaration),
    })
}

/** What everybody who may read the resource sees of a row: no hidden field, no validator, nothing absent. */
export function plainView(row: Row, { hides, links }: Pick<Declaration, 'hides' | 'links'>): Record<string, unknown> {
  const { revision: _, sharesSecond: __, ...fields } = row
  const shown = Object.entries(fields).filter(([name, value]) => value !== null && !hides?.fields.includes(name))
  const linked: Record<string, Link> | undefined = links?.(row)
  return { ...Object.fromEntries(shown), ...(linked && { _links: linked }) }
}
