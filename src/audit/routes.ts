import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { addLink } from '../http/headers/vary.ts'
import { Fields, linkHeader } from '../http/pagination.ts'
import { requesterOf } from '../http/requester.ts'
import type { Database } from '../storage/database.ts'
import type { AuditRow } from '../storage/tables/administration.ts'
import { auditArchives, newestArchive } from './archives.ts'
import { auditView } from './chain.ts'
import { auditPage, auditPages } from './entries.ts'
import { AuditArchiveView, AuditEntryView, AuditFilters, AuditQuery } from './schemas.ts'

const path = '/api/audit'
const archivesPath = `${path}/archives`
const exportPath = `${path}/export`
const ndjson = 'application/x-ndjson'

const config = { scope: 'audit:read', orScope: 'admin', cache: 'private', fields: true } as const

/**
 * Serves GET /api/audit, which lists the entries in the database, newest first; GET /api/audit/archives, which lists
 * the archived months; and the export. The last page of the entries links to the archived months (`rel="archives"`).
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
  exportRoute(app, db)
}

type App = Parameters<FastifyPluginAsyncTypebox>[0]

/** Adds GET /api/audit/export: the matching entries as NDJSON, oldest first. */
function exportRoute(app: App, db: Database): void {
  const ofExport = { tags: ['administration'], operationId: 'exportAuditEntries', summary: 'Export the audit log' }
  const example = '{"sequence":1,"at":"2026-03-01T12:00:00.500Z","event":"client.created","hash":"2esZL…"}\n'
  const lines = Type.Unknown({
    description: 'One entry per line, oldest first, in the format of the list and of archived months',
    examples: [example],
  })
  const content = { [ndjson]: { schema: lines } }
  const schema = { ...ofExport, querystring: AuditFilters, response: { 200: { description: 'The entries', content } } }
  const { fields: _, ...reads } = config
  const ofFile = { cache: 'none', produces: [ndjson], headers: ['Content-Disposition'] } as const
  app.get(exportPath, { config: { ...reads, ...ofFile }, schema }, async (request, reply) => {
    const pages = auditPages(db, request.query, requesterOf(request, reply))
    reply.header('content-disposition', 'attachment; filename="audit.ndjson"').type(ndjson)
    return reply.send(
      request.method === 'HEAD' ? Readable.from([]) : Readable.from(linesOf(pages), { highWaterMark: 1 }),
    )
  })
}

async function* linesOf(pages: AsyncIterable<AuditRow[]>): AsyncIterable<string> {
  for await (const page of pages) {
    yield page.map((row) => `${JSON.stringify(auditView(row))}\n`).join('')
    // Let other requests run between pages, because reads on SQLite block the event loop.
    await turn()
  }
}
