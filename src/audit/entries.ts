import { instantParameter } from '../http/headers/instant.ts'
import { keysetPage, type PageQuery } from '../http/pagination.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import type { Database } from '../storage/database.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import type { AuditRow } from '../storage/tables/administration.ts'

/** Audit log filters. */
export interface AuditFilter {
  event?: string
  clientId?: string
  subject?: string
  target?: string
  /** Half-open range [from, to), ISO 8601. */
  from?: string
  to?: string
}

/**
 * Filter combinations that have an index in log order. With any other combination, or with a time range, a query may
 * scan any number of entries.
 */
const indexed = new Set(['', 'event', 'clientId', 'subject', 'target', 'event clientId'])

/** Reads up to `count` entries after a position, in log order or backwards. */
type ReadEntries = (sequence: number | null, backwards: boolean, count: number) => Promise<AuditRow[]>

/**
 * Returns the filter with parsed instants, and a function that reads the entries that match it. Throws INVALID_INPUT for
 * an invalid instant. If there is no requester, as on the command line, the reads have no time limit.
 */
function filteredEntries({ read, scan, engine }: Database, filter: AuditFilter, requester?: ScanRequester) {
  const { event, clientId, subject, target } = filter
  const equal = Object.entries({ event, clientId, subject, target }).filter(([, value]) => value !== undefined)
  const [from, to] = [instantParameter('from', filter.from), instantParameter('to', filter.to)]
  const isBounded = from === undefined && to === undefined && indexed.has(equal.map(([name]) => name).join(' '))
  const entries: ReadEntries = (sequence, backwards, count) => {
    const [order, beyond] = backwards ? (['desc', '<'] as const) : (['asc', '>'] as const)
    const page = read
      .selectFrom('auditEntries')
      .selectAll()
      .where((row) => row.and(Object.fromEntries(equal)))
      .$if(from !== undefined, (rows) => rows.where('at', '>=', from as string))
      .$if(to !== undefined, (rows) => rows.where('at', '<', to as string))
      .$if(sequence !== null, (rows) => rows.where('sequence', beyond, sequence as number))
      .orderBy('sequence', order)
      .limit(count)
    return isBounded || requester === undefined
      ? page.execute()
      : scan(page.where(engine.interruptible('audit_entries')), requester)
  }
  return { of: ['audit', equal, from, to], entries }
}

/** Returns one page of the audit log, newest first. Throws INVALID_INPUT for an invalid instant. */
export function auditPage(db: Database, query: PageQuery & AuditFilter, requester?: ScanRequester) {
  const { of, entries } = filteredEntries(db, query, requester)
  return keysetPage<AuditRow>(query, 1, {
    of,
    keyOf: ({ sequence }) => [sequence],
    rowsAfter: (after, backwards, count) => entries(after && sequenceOf(after[0]), !backwards, count),
  })
}

function sequenceOf(value: unknown): number {
  if (!Number.isSafeInteger(value)) throw malformedQuery('cursor', 'is not a valid cursor')
  return value as number
}

const pageRows = 500

/**
 * Returns the matching entries page by page, oldest first. The next page is read only when it is requested. Throws
 * INVALID_INPUT for an invalid instant.
 */
export function auditPages(db: Database, filter: AuditFilter, requester: ScanRequester): AsyncIterable<AuditRow[]> {
  const { entries } = filteredEntries(db, filter, requester)
  return pagesOf(entries)
}

async function* pagesOf(entries: ReadEntries): AsyncIterable<AuditRow[]> {
  for (let sequence: number | null = null; ; ) {
    const page: AuditRow[] = await entries(sequence, false, pageRows)
    const last = page.at(-1)
    if (last === undefined) return
    yield page
    if (page.length < pageRows) return
    sequence = last.sequence
  }
}
