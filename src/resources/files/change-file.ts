import type { FastifyReply, FastifyRequest } from 'fastify'
import { acquireSlot } from '../../files/slots.ts'
import { matchesTag } from '../../http/headers/entity-tags.ts'
import { callerOf } from '../../http/policies/authenticate.ts'
import { Problem, preconditionFailed } from '../../http/problems/problem.ts'
import { responseEnd } from '../../http/server/response-end.ts'
import type { Queryable } from '../../storage/database.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { type FileOwner, placeFile, releaseFile } from '../../storage/stored-files.ts'
import type { Served } from '../declaration.ts'
import { type RowRequest, revise, writableRow } from '../writes/change.ts'
import type { FileField, FileStorage, FileValue } from './file-field.ts'
import { checkLength, chunksOf, receiveFile, type Upload, uploadType } from './upload.ts'

/** A file field with the context of its routes. */
export interface ServedFile extends FileField {
  served: Served
  storage: FileStorage
}

/** Returns the file of a row; null if it has none. */
export const fileIn = (row: Row, field: string) => (row[field] ?? null) as FileValue | null
const tagOf = ({ sha256 }: FileValue) => `"${sha256}"`
/** Returns the 404 problem for a row without a file. */
export const noFile = ({ field, served }: ServedFile, { id }: Row) =>
  new Problem('RESOURCE_NOT_FOUND', `The ${served.declaration.noun} ${id} has no ${field}`)

/**
 * Checks the preconditions of a write against the current file (RFC 9110 §13.1). Throws PRECONDITION_FAILED or
 * PRECONDITION_REQUIRED.
 */
function checkPreconditions({ served, field }: ServedFile, { headers }: FastifyRequest, value: FileValue | null): void {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  if (served.requireIfMatch && match === undefined && noneMatch === undefined)
    throw new Problem('PRECONDITION_REQUIRED', 'Send If-Match with the ETag of the file, or If-None-Match: *')
  const isMatched = match === undefined || (value !== null && matchesTag(match, tagOf(value), 'strong'))
  const isNew = noneMatch === undefined || value === null || !matchesTag(noneMatch, tagOf(value), 'weak')
  if (!isMatched || !isNew) throw preconditionFailed(`The ${field}`)
}

/**
 * Reads a row whose file is to be changed. Throws if the caller may not change the row, the row is locked, or its file
 * does not meet the preconditions.
 */
async function changeableRow(file: ServedFile, request: RowRequest): Promise<Row> {
  const { served, field } = file
  const { id } = request.params
  const row = await writableRow(served, id, await served.accessOf?.(callerOf(request)))
  checkPreconditions(file, request, fileIn(row, field))
  await served.db.write(async (tx) => served.lock?.one(tx, id, {}, 'change'))
  return row
}

/**
 * Handles PUT: stores the file, then makes it the row's file in one transaction. Before reading the body and again in
 * the transaction, checks that the row can be changed, and throws if it cannot.
 */
export async function uploadFile(file: ServedFile, request: RowRequest, reply: FastifyReply): Promise<FastifyReply> {
  const { served, storage } = file
  const { id } = request.params
  await changeableRow(file, request)
  const type = uploadType(request, file)
  checkLength(request, file)
  acquireSlot(storage.uploads, callerOf(request), responseEnd(reply), 'uploads')
  const { headers } = request
  const received = await receiveFile({ served, storage, field: file, id, type, headers }, chunksOf(request))
  const before = await place(file, request, received, type).catch(async (error) => {
    await received.discard()
    throw error
  })
  reply.header('etag', `"${received.sha256}"`)
  if (before !== null) return reply.code(204).send()
  const location = `${served.prefix}${served.declaration.path}/${id}/${file.field}`
  return reply.code(201).header('location', location).send()
}

async function place(file: ServedFile, request: RowRequest, received: Upload, type: string): Promise<FileValue | null> {
  const { key, sizeBytes, sha256 } = received
  return changeFile(file, request, { type, bytes: sizeBytes, sha256 }, (tx, owner, now) =>
    placeFile(tx, { key, sizeBytes, sha256 }, owner, now),
  )
}

/** Handles DELETE: removes the file from the row. Throws RESOURCE_NOT_FOUND if there is none. */
export async function removeFile(file: ServedFile, request: RowRequest, reply: FastifyReply): Promise<FastifyReply> {
  await changeFile(file, request, null)
  return reply.code(204).send()
}

type Placing = (tx: Queryable, owner: FileOwner, now: string) => Promise<void>

/**
 * Changes or removes the file of a row, and releases the previous file. Returns the value of the previous file; null if
 * there was none.
 */
async function changeFile(file: ServedFile, request: RowRequest, value: FileValue | null, placing?: Placing) {
  const { served, field } = file
  const { fieldNames, declaration } = served
  const owner = { table: declaration.table, id: request.params.id }
  let before: FileValue | null = null
  const valuesFrom = (row: Row) => {
    before = fileIn(row, field)
    if (before === null && value === null) throw noFile(file, row)
    checkPreconditions(file, request, before)
    return { ...Object.fromEntries(fieldNames.map((name) => [name, row[name] ?? null])), [field]: value }
  }
  await revise(served, request, {}, valuesFrom, async (tx, now) => {
    await placing?.(tx, owner, now)
    if (before !== null) await releaseFile(tx, owner, before.sha256, Date.parse(now))
  })
  return before as FileValue | null
}
