import type { IncomingHttpHeaders } from 'node:http'
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

/** The interval at which an upload extends its record while content arrives. */
const extendMs = 60_000

/**
 * Returns the media type of a body, or of the part of a form with this name. Throws UNSUPPORTED_MEDIA_TYPE unless the
 * field allows it.
 */
export function uploadType(
  { headers }: Pick<FastifyRequest, 'headers'>,
  { types }: Pick<FileField, 'types'>,
  part?: string,
): string {
  const unsupported = (how: string, accepted: Record<string, string>) =>
    new Problem('UNSUPPORTED_MEDIA_TYPE', `Send the ${part ?? 'file'} ${how}`, part ? {} : { headers: accepted })
  const coding = headers['content-encoding'] ?? 'identity'
  if (coding.toLowerCase() !== 'identity') throw unsupported('uncompressed', { 'accept-encoding': 'identity' })
  if (headers['content-range'] !== undefined)
    throw new Problem('INVALID_INPUT', 'Content-Range is not supported: send the whole file')
  const [essence = '', ...parameters] = (headers['content-type'] ?? '').toLowerCase().split(';')
  const charset = parameters.find((parameter) => parameter.trim().startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?(utf-8|us-ascii)"?$/.test(charset.trim())
  const type = essence.trim()
  if (types.includes(type) && isUtf8) return type
  const accept = types.join(', ')
  throw unsupported(`as ${accept}${isUtf8 ? '' : ', text in UTF-8'}`, { accept })
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
  /** The id of the row; undefined for a row that does not exist yet. */
  id: RowId | undefined
  type: string
  /** The headers that contain the digests of the file. */
  headers: IncomingHttpHeaders
}

/** A complete upload that no row refers to yet. */
export interface Upload extends Uploaded {
  /** Removes the file unless a row refers to it. If this fails, the sweep removes the file later. */
  discard: () => Promise<void>
}

/**
 * Stores a file, and checks its size, type and digests while it arrives. If it rejects, the store contains no file.
 * Throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, VALIDATION_ERROR for a different digest, or what `chunks` throws.
 */
export async function receiveFile(target: UploadTarget, chunks: AsyncIterable<Buffer>): Promise<Upload> {
  const { served, storage, id } = target
  const { db, declaration, now, random } = served
  const key = newOrderedId('fil', random, new Date(now()).toISOString())
  await addUpload(db, key, { table: declaration.table, id: id ?? unknownId }, now())
  const discard = async (writer?: ResultWriter) => {
    await writer?.discard()
    // If the database connection was lost during a commit, the file may nevertheless belong to a row.
    if (!(await abandonUpload(db, key, now()))) return
    await storage.store.remove(key)
    await forgetFiles(db, [key])
  }
  const writer = await storage.store.create(key)
  try {
    await copy(target, chunks, key, writer)
    return { key, discard: () => discard().catch(() => {}), ...(await writer.finish()) }
  } catch (error) {
    await discard(writer).catch(() => {})
    throw error
  }
}

/** Recorded as the row id of an upload for a row that does not exist yet. No row has this id. */
const unknownId = ''

async function copy(target: UploadTarget, chunks: AsyncIterable<Buffer>, key: string, writer: ResultWriter) {
  const { served, field, type, headers } = target
  const { db, now } = served
  const content = contentCheck(type)
  const digests = digestCheck(headers)
  let sizeBytes = 0
  let extendedAt = now()
  for await (const chunk of chunks) {
    sizeBytes += chunk.length
    if (sizeBytes > field.maxBytes) throw tooLarge(field)
    if (!content.accepts(chunk)) throw otherContent(target)
    digests.update(chunk)
    await writer.write(chunk)
    if (now() - extendedAt < extendMs) continue
    extendedAt = now()
    await extendUpload(db, key, extendedAt)
  }
  if (!content.ends()) throw otherContent(target)
  digests.end()
  // Extend the upload once more, so that the record lasts until the store has completed the file.
  if (!(await extendUpload(db, key, now()))) throw new Error(`The upload ${key} was abandoned`)
}

const otherContent = ({ field: { field }, type }: UploadTarget) =>
  new Problem('UNSUPPORTED_MEDIA_TYPE', `The content of the ${field} is not ${type}, which Content-Type declares`)

/** Reads the body of a request. Does not destroy it on an error, so that the client can receive the response. */
export async function* chunksOf({ body }: FastifyRequest): AsyncGenerator<Buffer> {
  if (body === undefined || body === null) return
  try {
    yield* (body as Readable).iterator({ destroyOnReturn: false })
  } catch (error) {
    throw new Problem('INVALID_INPUT', 'The body ended before it was complete', { cause: error })
  }
}
