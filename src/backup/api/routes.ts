import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { auditRecorder } from '../../audit/chain.ts'
import { sendFile } from '../../files/send-file.ts'
import { addLink } from '../../http/headers/vary.ts'
import { linkHeader } from '../../http/pagination.ts'
import { auditActor, callerOf } from '../../http/policies/authenticate.ts'
import { checkPostPreconditions } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import { idempotentWrite } from '../../idempotency/idempotent-write.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { Backups } from './backups.ts'
import { BackupFields, BackupList, BackupParams, BackupView } from './schemas.ts'
import { backupId } from './views.ts'

export interface BackupRoutesOptions {
  db: Database
  sealer: Sealer
  now: () => number
  backups: Backups
}

type Plugin = FastifyPluginAsyncTypebox<BackupRoutesOptions>

const path = '/api/backups'
const tags = ['administration']
const reads = { scope: 'admin', cache: 'private', fields: true } as const
const writes = { scope: 'admin', cache: 'none' } as const

/** Routes that list and request backups, download their files and check them. Requests and downloads are audited. */
export const backupRoutes: Plugin = async (app, options) => {
  for (const routes of [reading, requesting, downloading, verifying]) await routes(app, options)
}

const reading: Plugin = async (app, { backups }) => {
  const ofList = { tags, operationId: 'listBackups', summary: 'List the last 100 backups, newest first' }
  const listSchema = { ...ofList, querystring: BackupList, response: { 200: Type.Array(BackupView) } }
  app.get(path, { config: reads, schema: listSchema }, async (request, reply) => {
    const { backups: page, cursors } = await backups.page(request.query)
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return page
  })
  const ofOne = { tags, operationId: 'readBackup', summary: 'Read the state of a backup', params: BackupParams }
  const schema = { ...ofOne, querystring: BackupFields, response: { 200: BackupView } }
  app.get(`${path}/:id`, { config: reads, schema }, async (request) =>
    backups.view(await backups.find(request.params.id)),
  )
}

const requesting: Plugin = async (app, { db, sealer, now, backups }) => {
  const about = { tags, operationId: 'createBackup', summary: 'Request a backup' }
  const config = { ...writes, problems: ['BACKUPS_NOT_CONFIGURED', 'BACKUP_IN_PROGRESS'] } as const
  const record = auditRecorder(sealer, now)
  app.post(path, { config, schema: { ...about, response: { 202: BackupView } } }, async (request, reply) => {
    const { clientId, subject } = callerOf(request)
    checkPostPreconditions(request)
    const body = await idempotentWrite(request, reply, db.write, async (tx: Queryable) => {
      const run = await backups.request(tx, clientId === subject ? clientId : `${clientId} ${subject}`)
      const id = backupId(run.scheduledFor)
      await record(tx, { ...auditActor(request), event: 'backup.requested', target: id })
      return { status: 202, headers: { location: `${app.prefix}${path}/${id}` }, body: backups.viewUnseen(run) }
    })
    backups.onRequested()
    return body
  })
}

const content = { 'application/octet-stream': { schema: Type.String({ format: 'binary' }) } }

const downloading: Plugin = async (app, { db, sealer, now, backups }) => {
  const about = { tags, operationId: 'downloadBackup', summary: 'Download an encrypted backup', params: BackupParams }
  const response = {
    200: { description: 'The file', content },
    206: { description: 'The requested range of the file', content },
  }
  const problems = ['BACKUP_UNAVAILABLE', 'BACKUP_NOT_ENCRYPTED', 'RATE_LIMIT_EXCEEDED', 'SERVICE_UNAVAILABLE'] as const
  const config = { ...writes, produces: [], problems } as const
  const record = auditRecorder(sealer, now)
  app.get(`${path}/:id/download`, { config, schema: { ...about, response } }, async (request, reply) => {
    const run = await backups.readable(await backups.find(request.params.id))
    if (run.encrypted !== 1) throw new Problem('BACKUP_NOT_ENCRYPTED', notEncrypted)
    const { name, sizeBytes, sha256 } = run
    const file = { name, mediaType: 'application/octet-stream', sizeBytes, sha256: sha256 ?? '' }
    const open = async (...args: Parameters<Awaited<ReturnType<Backups['store']>>['open']>) => {
      // The download is audited before the first byte is sent.
      const entry = { ...auditActor(request), event: 'backup.downloaded', target: request.params.id } as const
      await db.write((tx) => record(tx, { ...entry, details: { file: name } }))
      return (await backups.store()).open(...args)
    }
    return sendFile({ ...file, key: name, open, downloads: backups.downloads }, request, reply)
  })
}

const notEncrypted =
  'The backup is not encrypted, and contains the master key: set PLINTH_BACKUP_PASSPHRASE_FILE to encrypt later backups, ' +
  'or copy the file on the machine'

const verifying: Plugin = async (app, { db, backups }) => {
  const about = { tags, operationId: 'verifyBackup', summary: 'Check the file of a backup', params: BackupParams }
  const problems = ['BACKUP_UNAVAILABLE', 'CHECK_IN_PROGRESS', 'SERVICE_UNAVAILABLE'] as const
  const schema = { ...about, response: { 202: BackupView } }
  app.post(`${path}/:id/verify`, { config: { ...writes, problems }, schema }, async (request, reply) => {
    const run = await backups.readable(await backups.find(request.params.id))
    checkPostPreconditions(request)
    const verification = backups.verification(run)
    try {
      const body = await idempotentWrite(request, reply, db.write, async (tx: Queryable) => {
        await verification.claim(tx)
        const runs = tx.selectFrom('backups').selectAll().where('scheduledFor', '=', run.scheduledFor)
        const claimed = await runs.executeTakeFirstOrThrow()
        const headers = { location: `${app.prefix}${path}/${request.params.id}` }
        return { status: 202, headers, body: backups.viewUnseen(claimed) }
      })
      verification.start()
      return body
    } finally {
      verification.release()
    }
  })
}
