import { newId, type RandomBytes } from '../db/ids.ts'
import type { Database, Queryable } from '../db/open.ts'
import type { Row } from '../db/rows.ts'
import type { Caller } from '../http/identify.ts'
import { listeners, patternsOf, recordEvent } from '../queue/events.ts'
import type { Queue } from '../queue/queue.ts'
import type { Declaration, Link } from './declaration.ts'

/** What happens to a row of a resource, as its events name it. */
export type Happening = 'created' | 'updated' | 'deleted'

/** Tells of a change in the transaction that makes it, when anybody listens. */
export type Announce = (
  tx: Queryable,
  happening: Happening,
  row: Row | { id: number },
  caller: Caller,
  now: string,
) => Promise<void>

interface Sources {
  db: Database
  queue: Queue
  random: RandomBytes
}

/** Who may hear of a resource: whoever may read it. */
export const audienceOf = ({ readScope }: Pick<Declaration, 'readScope'>): string => readScope ?? 'any'

/** The announcer of one resource. A change that no registration hears of costs one look into an index. */
export function announcer({ db, queue, random }: Sources, declaration: Declaration): Announce {
  const isHeard = listeners(db)
  const audience = audienceOf(declaration)
  const typeOf = (happening: Happening) => {
    const type = `${declaration.noun}.${happening}`
    return { type, patterns: patternsOf(type) }
  }
  const types = { created: typeOf('created'), updated: typeOf('updated'), deleted: typeOf('deleted') }
  return async (tx, happening, row, { clientId, subject }, now) => {
    const { type, patterns } = types[happening]
    if (!(await isHeard(tx, patterns))) return
    await recordEvent(tx, queue, {
      ...{ id: newId('msg', random), type, audience, createdAt: now, callbackUrl: null },
      ...{ ownerClient: clientId, ownerSubject: subject },
      body: happening === 'deleted' ? { id: row.id } : plainView(row as Row, declaration),
    })
  }
}

/** What everybody who may read the resource sees of a row: no hidden field, no revision, nothing absent. */
export function plainView(row: Row, { hides, links }: Pick<Declaration, 'hides' | 'links'>): Record<string, unknown> {
  const { revision: _, ...fields } = row
  const shown = Object.entries(fields).filter(([name, value]) => value !== null && !hides?.fields.includes(name))
  const linked: Record<string, Link> | undefined = links?.(row)
  return { ...Object.fromEntries(shown), ...(linked && { _links: linked }) }
}
