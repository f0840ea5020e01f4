import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { contentCheck } from '../../files/media-types.ts'
import type { ResultWriter } from '../../files/store.ts'
import { digestCheck } from '../../http/headers/digest.ts'
import { Problem } from '../../http/problems/problem.ts'
import { newOrderedId, type RowId } from '../../storage/ids.ts'
import { abandonUpload, addUpload, extendUpload, forgetFiles, type Uploaded } from '../../storage/stored-files.ts'
import type { Served } from '../declaration.ts'
import type { FileField, FileStorage } from './file-field.ts'

/** An upload extends its record at this interval while content arrives. */
const extendMs = 60_000

/** Returns the media type of an upload. Throws UNSUPPORTED_MEDIA_TYPE unless the field allows it. */
export function uploadType({ headers }: FastifyRequest, { types }: FileField): string {
  const coding = headers['content-encoding'] ?? 'identity'
  if (coding.toLowerCase() !== 'identity')
    throw new Problem('UNSUPPORTED_MEDIA_TYPE', 'Send the file uncompressed', {
      headers: { 'accept-encoding': 'identity' },
    })
  if (headers['content-range'] !== undefined)
    throw new Problem('INVALID_INPUT', 'Content-Range is not supported: send the whole file')
  const [essence = '', ...parameters] = (headers['content-type'] ?? '').toLowerCase().split(';')
  const charset = parameters.find((parameter) => parameter.trim().startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?(utf-8|us-ascii)"?$/.test(charset.trim())
  const type = essence.trim()
  if (types.includes(type) && isUtf8) return type
  const accept = types.join(', ')
  throw new Problem('UNSUPPORTED_MEDIA_TYPE', `Send the file as ${accept}${isUtf8 ? '' : ', text in UTF-8'}`, {
    headers: { accept },
  })
}

const tooLarge = ({ field, maxBytes }: FileField) =>
  new Problem('PAYLOAD_TOO_LARGE', `The ${field} may have at most ${maxBytes} bytes`)

/** Throws PAYLOAD_TOO_LARGE if Content-Length exceeds the maximum size. */
export function checkLength({ headers }: FastifyRequest, field: FileField): void {
  if (Number(headers['content-length'] ?? 0) > field.maxBytes) throw tooLarge(field)
}

interface UploadTarget {
  served: Served
  storage: FileStorage
  field: FileField
  id: RowId
  type: string
}

/** A complete upload, which no row refers to yet. */
export interface Upload extends Uploaded {
  /** Removes the file unless a row refers to it, then throws the error. */
  discardAfter: (error: unknown) => Promise<never>
}

/**
 * Stores the body of a request, and checks its size, type and digests while it arrives. If it rejects, the store contains
 * no file. Throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, VALIDATION_ERROR for a different digest, or INVALID_INPUT if
 * the body ends early.
 */
export async function receiveFile(target: UploadTarget, request: FastifyRequest): Promise<Upload> {
  const { served, storage, id } = target
  const { db, declaration, now, random } = served
  const key = newOrderedId('fil', random, new Date(now()).toISOString())
  await addUpload(db, key, { table: declaration.table, id }, now())
  const discard = async (writer?: ResultWriter) => {
    await writer?.discard()
    // The commit of a lost connection may have succeeded.
    if (!(await abandonUpload(db, key, now()))) return
    await storage.store.remove(key)
    await forgetFiles(db, [key])
  }
  const discardAfter = async (error: unknown, writer?: ResultWriter): Promise<never> => {
    // If this fails, the sweep removes the file later.
    await discard(writer).catch(() => {})
    throw error
  }
  const writer = await storage.store.create(key)
  try {
    await copyBody(target, request, key, writer)
    return { key, discardAfter, ...(await writer.finish()) }
  } catch (error) {
    return discardAfter(error, writer)
  }
}

async function copyBody(target: UploadTarget, request: FastifyRequest, key: string, writer: ResultWriter) {
  const { served, field, type } = target
  const { db, now } = served
  const content = contentCheck(type)
  const digests = digestCheck(request.headers)
  let sizeBytes = 0
  let extendedAt = now()
  for await (const chunk of chunksOf(request)) {
    sizeBytes += chunk.length
    if (sizeBytes > field.maxBytes) throw tooLarge(field)
    if (!content.accepts(chunk)) throw otherContent(type)
    digests.update(chunk)
    await writer.write(chunk)
    if (now() - extendedAt < extendMs) continue
    extendedAt = now()
    await extendUpload(db, key, extendedAt)
  }
  if (!content.ends()) throw otherContent(type)
  digests.end()
  // So that the record lasts until the store has completed the file.
  if (!(await extendUpload(db, key, now()))) throw new Error(`The upload ${key} was abandoned`)
}

const otherContent = (type: string) =>
  new Problem('UNSUPPORTED_MEDIA_TYPE', `The content of the file is not ${type}, which Content-Type declares`)

/** Reads the body of a request. Does not destroy it on an error, so that the client can receive the response. */
async function* chunksOf({ body }: FastifyRequest): AsyncGenerator<Buffer> {
  if (body === undefined || body === null) return
  try {
    yield* (body as Readable).iterator({ destroyOnReturn: false })
  } catch (error) {
    throw new Problem('INVALID_INPUT', 'The body ended before it was complete', { cause: error })
  }
}
