import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { addLink } from '../http/headers/vary.ts'
import { linkHeader } from '../http/pagination.ts'
import { requesterOf } from '../http/requester.ts'
import type { Database } from '../storage/database.ts'
import { auditPage, auditView } from './list.ts'
import { AuditEntryView, AuditQuery } from './schemas.ts'

const path = '/api/audit'

/** GET /api/audit: the audit log, newest first, read-only. */
export const auditRoutes: FastifyPluginAsyncTypebox<{ db: Database }> = async (app, { db }) => {
  const about = {
    tags: ['administration'],
    operationId: 'listAuditEntries',
    summary: 'Read the audit log, newest first',
  }
  const schema = { ...about, querystring: AuditQuery, response: { 200: Type.Array(AuditEntryView) } }
  const config = { scope: 'audit:read', orScope: 'admin', cache: 'private', fields: true } as const
  app.get(path, { config, schema }, async (request, reply) => {
    const { rows, cursors } = await auditPage(db, request.query, requesterOf(request, reply))
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return rows.map(auditView) as never
  })
}
