import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { instantParameter } from '../http/headers/instant.ts'
import { addLink } from '../http/headers/vary.ts'
import { Fields, keysetPage, linkHeader, type PageQuery } from '../http/pagination.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import { requesterOf } from '../http/requester.ts'
import type { Database } from '../storage/database.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import type { AuditRow } from '../storage/tables/administration.ts'
import { auditArchives, newestArchive } from './archives.ts'
import { auditView } from './chain.ts'
import { AuditArchiveView, AuditEntryView, AuditQuery } from './schemas.ts'

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
 * Filter combinations that have an index in log order; other combinations, and time ranges, may scan any number of
 * entries.
 */
const indexed = new Set(['', 'event', 'clientId', 'subject', 'target', 'event clientId'])

/**
 * Returns one page of the audit log, newest first. Throws INVALID_INPUT for an invalid instant. If there is no requester,
 * as on the command line, the query has no time limit.
 */
export function auditPage({ read, scan, engine }: Database, query: PageQuery & AuditFilter, requester?: ScanRequester) {
  const { event, clientId, subject, target } = query
  const equal = Object.entries({ event, clientId, subject, target }).filter(([, value]) => value !== undefined)
  const [from, to] = [instantParameter('from', query.from), instantParameter('to', query.to)]
  const isBounded = from === undefined && to === undefined && indexed.has(equal.map(([name]) => name).join(' '))
  return keysetPage<AuditRow>(query, 1, {
    of: ['audit', equal, from, to],
    keyOf: ({ sequence }) => [sequence],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const sequence = after && sequenceOf(after[0])
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
    },
  })
}

function sequenceOf(value: unknown): number {
  if (!Number.isSafeInteger(value)) throw malformedQuery('cursor', 'is not a valid cursor')
  return value as number
}

const path = '/api/audit'
const archivesPath = `${path}/archives`

const config = { scope: 'audit:read', orScope: 'admin', cache: 'private', fields: true } as const

/**
 * Serves GET /api/audit: the entries in the database, newest first, read-only. After the oldest of them, a link with the
 * relation `archives` leads to GET /api/audit/archives: the archived months.
 */
export const auditRoutes: FastifyPluginAsyncTypebox<{ db: Database }> = async (app, { db }) => {
  const ofLog = {
    tags: ['administration'],
    operationId: 'listAuditEntries',
    summary: 'Read the audit log, newest first',
  }
  const logSchema = { ...ofLog, querystring: AuditQuery, response: { 200: Type.Array(AuditEntryView) } }
  app.get(path, { config, schema: logSchema }, async (request, reply) => {
    const { rows, cursors } = await auditPage(db, request.query, requesterOf(request, reply))
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    const hasArchives = cursors.next === undefined && (await newestArchive(db.read)) !== undefined
    if (hasArchives) addLink(reply, `<${app.prefix}${archivesPath}>; rel="archives"`)
    return rows.map(auditView) as never
  })
  const ofArchives = {
    tags: ['administration'],
    operationId: 'listAuditArchives',
    summary: 'List the archived months of the audit log, oldest first',
  }
  const querystring = Type.Object({ fields: Fields })
  const schema = { ...ofArchives, querystring, response: { 200: Type.Array(AuditArchiveView) } }
  app.get(archivesPath, { config, schema }, async () => {
    const archives = await auditArchives(db)
    return archives.map(({ digest, ...archive }) => archive)
  })
}
