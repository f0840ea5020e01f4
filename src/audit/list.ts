import { instantParameter } from '../http/headers/instant.ts'
import { keysetPage, type PageQuery } from '../http/pagination.ts'
import { Problem } from '../http/problems/problem.ts'
import type { Database } from '../storage/database.ts'
import type { Requester } from '../storage/scans/scan.ts'
import type { AuditRow } from '../storage/tables/administration.ts'

/** What the audit log can be asked for. */
export interface AuditFilter {
  event?: string
  clientId?: string
  subject?: string
  target?: string
  /** Instants in ISO form: the first that counts, and the first that does not. */
  from?: string
  to?: string
}

/** The filters that an index has in the order of the log; other ones, and times, may meet any number of entries. */
const indexed = new Set(['', 'event', 'clientId', 'subject', 'target', 'event clientId'])

/**
 * One page of the audit log, newest first. Throws INVALID_INPUT for an instant that cannot be read. Without a requester, at
 * the command line, it takes the time it needs.
 */
export function auditPage({ read, scan, engine }: Database, query: PageQuery & AuditFilter, requester?: Requester) {
  const { event, clientId, subject, target } = query
  const equal = Object.entries({ event, clientId, subject, target }).filter(([, value]) => value !== undefined)
  const [from, to] = [instantParameter('from', query.from), instantParameter('to', query.to)]
  const isBounded = from === undefined && to === undefined && indexed.has(equal.map(([name]) => name).join(' '))
  return keysetPage<AuditRow>(query, 1, {
    of: ['audit', equal, from, to],
    keyOf: ({ sequence }) => [sequence],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const place = after && placeOf(after[0])
      const page = read
        .selectFrom('auditEntries')
        .selectAll()
        .where((row) => row.and(Object.fromEntries(equal)))
        .$if(from !== undefined, (rows) => rows.where('at', '>=', from as string))
        .$if(to !== undefined, (rows) => rows.where('at', '<', to as string))
        .$if(place !== null, (rows) => rows.where('sequence', beyond, place as number))
        .orderBy('sequence', order)
        .limit(count)
      return isBounded || requester === undefined
        ? page.execute()
        : scan(page.where(engine.interruptible('audit_entries')), requester)
    },
  })
}

/** An entry as it is shown: what it does not know is left out. */
export function auditView({ details, ...row }: AuditRow): Record<string, unknown> {
  const entry = { ...row, details: details && JSON.parse(details) }
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null))
}

const malformed = (field: string, message: string) =>
  new Problem('INVALID_INPUT', 'The query is malformed', { errors: [{ field, message }] })

function placeOf(value: unknown): number {
  if (!Number.isSafeInteger(value)) throw malformed('cursor', 'is not one of our cursors')
  return value as number
}
