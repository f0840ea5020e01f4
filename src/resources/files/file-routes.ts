import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { Type } from 'typebox'
import { contentTypeOf, extensionOf } from '../../files/media-types.ts'
import { sendFile } from '../../files/send-file.ts'
import { callerOf } from '../../http/policies/authenticate.ts'
import type { ProblemCode } from '../../http/problems/problem.ts'
import { capital } from '../../openapi/schemas.ts'
import { findFile } from '../../storage/stored-files.ts'
import type { Served } from '../declaration.ts'
import { idParams } from '../id-types.ts'
import { type RowRequest, readableRow } from '../writes/change.ts'
import { fileIn, noFile, removeFile, type ServedFile, uploadFile } from './change-file.ts'

/** Adds the routes of the file fields: PUT, GET, HEAD and DELETE for URLs such as `/invoices/{id}/scan`. */
export async function fileRoutes(app: FastifyInstance, served: Served): Promise<void> {
  const { files: storage, declaration } = served
  if (storage === undefined) throw new Error('Collections with files need a store')
  // The handlers read bodies of any type as streams.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, body, done) => done(null, body))
  const { operations, view } = declaration
  for (const field of declaration.files) {
    if (view?.hidden.includes(field.field)) continue
    const file = { ...field, served, storage }
    if (operations.includes('read')) app.route(download(file))
    if (operations.includes('replace') || operations.includes('patch')) for (const one of writes(file)) app.route(one)
  }
}

const about = ({ field, served }: ServedFile, verb: string, title: string) => ({
  tags: [served.declaration.name],
  operationId: verb + capital(served.declaration.noun) + capital(field),
  summary: `${title} the ${field} of a ${served.declaration.noun}`,
  params: idParams(served.declaration.ids),
})

const urlOf = ({ field, served }: ServedFile) => `${served.declaration.path}/:id/${field}`

function download(file: ServedFile): RouteOptions {
  const { served, types, field, storage } = file
  const { publicRead, readScope, noun, name, table } = served.declaration
  const content = Object.fromEntries(types.map((type) => [type, { schema: Type.String({ format: 'binary' }) }]))
  const response = { 200: { description: 'The file', content }, 206: { description: 'The requested range', content } }
  const scope = publicRead ? (served.publicRead ? 'public' : 'any') : (readScope ?? `${name}:read`)
  const problems = ['RATE_LIMIT_EXCEEDED', 'SERVICE_UNAVAILABLE'] as const
  const config = { scope, cache: 'private', produces: [], revised: false, problems } as const
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    const access = await served.accessOf?.(callerOf(request))
    const row = await readableRow(served, (request as RowRequest).params.id, access)
    const value = fileIn(row, field)
    if (value === null) throw noFile(file, row)
    const stored = await findFile(served.db.read, { table, id: row.id }, value.sha256)
    if (stored === undefined) throw new Error(`The ${field} of the ${noun} ${row.id} has no record`)
    const { type, bytes: sizeBytes, sha256 } = value
    return sendFile(
      {
        ...{ key: stored.key, sizeBytes, sha256, open: storage.store.open, downloads: storage.downloads },
        ...{ name: `${noun}-${row.id}-${field}.${extensionOf(type)}`, mediaType: contentTypeOf(type) },
        storedAt: { ms: Date.parse(stored.storedAt as string), sharesSecond: stored.sharesSecond === 1 },
      },
      request,
      reply,
    )
  }
  return {
    method: 'GET',
    url: urlOf(file),
    config,
    schema: { ...about(file, 'download', 'Download'), response },
    handler,
  }
}

/** Returns the routes that change a file. */
function writes(file: ServedFile): RouteOptions[] {
  const { served, types } = file
  const { name, writers, access } = served.declaration
  const url = urlOf(file)
  const problems: ProblemCode[] = [
    ...(access || writers ? ['PERMISSION_DENIED' as const] : []),
    ...(served.lock ? ['RESOURCE_LOCKED' as const] : []),
    ...(['PRECONDITION_FAILED', 'PRECONDITION_REQUIRED'] as const),
  ]
  const config = {
    ...({ scope: `${name}:write`, cache: 'none', produces: [], revised: false } as const),
    ...(writers?.orScope && { orScope: writers.orScope }),
    requestHeaders: ['If-Match', 'If-None-Match'] as const,
  }
  const transfers = ['RATE_LIMIT_EXCEEDED', 'SERVICE_UNAVAILABLE'] as const
  return [
    {
      ...{ method: 'PUT', url, schema: { ...about(file, 'upload', 'Upload'), response: { 201: {}, 204: {} } } },
      config: { ...config, bodyTypes: types, headers: ['ETag'], problems: [...problems, ...transfers] },
      handler: (request, reply) => uploadFile(file, request as RowRequest, reply),
    },
    {
      ...{ method: 'DELETE', url, schema: about(file, 'delete', 'Delete'), config: { ...config, problems } },
      handler: (request, reply) => removeFile(file, request as RowRequest, reply),
    },
  ]
}
