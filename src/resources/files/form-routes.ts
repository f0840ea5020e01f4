import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { acquireSlot } from '../../files/slots.ts'
import { type FormPart, jsonPart, readForm } from '../../http/multipart.ts'
import { callerOf } from '../../http/policies/authenticate.ts'
import { checkCoding, formData, readJsonBody } from '../../http/policies/body-parsing.ts'
import { checkPostPreconditions, meets, preconditionOf } from '../../http/policies/conditional.ts'
import { Problem, preconditionFailed } from '../../http/problems/problem.ts'
import { responseEnd } from '../../http/server/response-end.ts'
import { checkCreation } from '../constraints/writers.ts'
import type { CollectionOperation, Declaration, Served } from '../declaration.ts'
import { type BodyRequest, type RowRequest, writableRow } from '../writes/change.ts'
import type { FileField, FileStorage } from './file-field.ts'
import type { MultipartForm, ReceivedFile } from './form.ts'
import { receiveFile, uploadType } from './upload.ts'

/** Returns the file fields that a resource's forms can contain. */
export const formFields = ({ files, view }: Declaration): readonly FileField[] =>
  files.filter(({ field }) => field !== jsonPart && !view?.hidden.includes(field))

/** The context for reading a resource's forms. */
interface FormTarget {
  served: Served
  storage: FileStorage
  fields: readonly FileField[]
}

interface OwnRoute {
  operation: CollectionOperation
  route: RouteOptions
}

/**
 * Adds the routes of a resource with files. POST, PUT and PATCH also accept a form: the part `json` comes first and is
 * parsed as the body, and the files after it are stored before the handler runs.
 */
export async function formRoutes(app: FastifyInstance, served: Served, routes: readonly OwnRoute[]): Promise<void> {
  const { files: storage, declaration } = served
  if (storage === undefined) throw new Error('Collections with files need a store')
  const target = { served, storage, fields: formFields(declaration) }
  app.addContentTypeParser(formData, (request: FastifyRequest, body: Readable) => readBody(target, request, body))
  for (const { operation, route } of routes) {
    if (operation === 'create') app.route(withForm(target, route, checkNew))
    else if (operation === 'replace' || operation === 'patch') app.route(withForm(target, route, checkChanged))
    else app.route(route)
  }
}

type Check = (served: Served, request: FastifyRequest) => void | Promise<void>

/** Returns a route that also accepts forms. `check` refuses a request before its files are read. */
function withForm(target: FormTarget, route: RouteOptions, check: Check): RouteOptions {
  const { served, fields } = target
  const problems = [...(route.config?.problems ?? []), 'RATE_LIMIT_EXCEEDED', 'SERVICE_UNAVAILABLE'] as const
  return {
    ...route,
    config: { ...route.config, parts: Object.fromEntries(fields.map(({ field, types }) => [field, types])), problems },
    preHandler: async (request, reply) => {
      if (!request.form) return
      await check(served, request)
      await receiveFiles(target, request.form, request, reply)
    },
    onSend: async (request, reply, payload) => {
      if (request.form) await endForm(request.form, reply)
      return payload
    },
  }
}

/** Throws if a precondition of the POST fails, or if the caller cannot write one of the fields in the body. */
function checkNew({ declaration }: Served, request: FastifyRequest): void {
  checkPostPreconditions(request)
  checkCreation(declaration.writers, (request as BodyRequest).body, callerOf(request))
}

/** Throws if the caller cannot change the row now. The transaction of the change checks it again. */
async function checkChanged(served: Served, request: FastifyRequest): Promise<void> {
  const { id } = (request as RowRequest).params
  const { lock, guard, declaration } = served
  const precondition = preconditionOf(request, served.requireIfMatch)
  const row = await writableRow(served, id, await served.accessOf?.(callerOf(request)))
  // With a guard, only the transaction checks preconditions, because the guard must authorize the change first.
  if (!guard && !meets(row, precondition)) throw preconditionFailed(`The ${declaration.noun} ${id}`)
  if (lock) await served.db.write(async (tx) => lock.one(tx, id, {}, 'change'))
}

/** Reads a form's JSON part; returns an empty object if the first part is a file. */
async function readBody({ fields }: FormTarget, request: FastifyRequest, body: Readable): Promise<unknown> {
  // Content in a request that takes no body is ignored.
  if (request.routeOptions.config.parts === undefined) return undefined
  checkCoding(request.headers)
  const form: MultipartForm = { parts: readForm(request, body, fields.length + 1), first: undefined, received: [] }
  request.form = form
  const { value: first } = await form.parts.next()
  if (!first) throw new Problem('INVALID_INPUT', 'The form has no parts')
  if (first.name === jsonPart) return readJsonPart(request, first)
  // A client that sends fields as parts gets an error about the part, not about missing fields.
  fieldOf(fields, first)
  form.first = first
  return {}
}

async function readJsonPart({ routeOptions }: FastifyRequest, part: FormPart): Promise<unknown> {
  const { config, bodyLimit } = routeOptions
  const types = [...(config.accepts ?? []), 'application/json']
  checkEncoding(part)
  // Browsers send text fields as text/plain.
  if (!['text/plain', ...types].includes(essenceOf(part)))
    throw new Problem('UNSUPPORTED_MEDIA_TYPE', `Send the part ${jsonPart} as ${types.join(' or ')}`)
  const read: Buffer[] = []
  let bytes = 0
  for await (const chunk of part.chunks()) {
    bytes += chunk.length
    if (bytes > bodyLimit)
      throw new Problem('PAYLOAD_TOO_LARGE', `The part ${jsonPart} has more than ${bodyLimit} bytes`)
    read.push(chunk)
  }
  return readJsonBody(part, Buffer.concat(read))
}

const essenceOf = ({ headers }: FormPart) =>
  (headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''

/** Throws 415 for a part with a Content-Transfer-Encoding that changes its content (RFC 7578 §4.7). */
function checkEncoding({ headers, name }: FormPart): void {
  const encoding = headers['content-transfer-encoding']?.trim().toLowerCase() ?? 'binary'
  if (!['7bit', '8bit', 'binary'].includes(encoding))
    throw new Problem('UNSUPPORTED_MEDIA_TYPE', `Send the part ${name} without Content-Transfer-Encoding`)
}

/** Stores the files of a form. Throws if one of them is refused; `endForm` then removes the others. */
async function receiveFiles(target: FormTarget, form: MultipartForm, request: FastifyRequest, reply: FastifyReply) {
  let part = form.first ?? (await nextPart(form))
  if (part) acquireSlot(target.storage.uploads, callerOf(request), responseEnd(reply), 'uploads')
  for (; part; part = await nextPart(form)) form.received.push(await receivePart(target, form, request, part))
  const digests = form.received.map(({ field, value: { type, sha256 } }) => [field, `${type} ${sha256}`])
  request.fileDigests = Object.fromEntries(digests)
}

const nextPart = async ({ parts }: MultipartForm) => (await parts.next()).value || undefined

async function receivePart(
  { served, storage, fields }: FormTarget,
  { received }: MultipartForm,
  request: FastifyRequest,
  part: FormPart,
): Promise<ReceivedFile> {
  const { name, headers, chunks } = part
  if (name === jsonPart) throw new Problem('INVALID_INPUT', `Send the part ${jsonPart} once, before the files`)
  const field = fieldOf(fields, part)
  if (received.some((one) => one.field === name)) throw invalidPart(name, 'was sent twice')
  checkEncoding(part)
  const type = uploadType(part, field, name)
  const { id } = request.params as { id?: RowRequest['params']['id'] }
  const upload = await receiveFile({ served, storage, field, id, type, headers }, chunks())
  const value = { type, bytes: upload.sizeBytes, sha256: upload.sha256 }
  return { field: name, value, upload, isPlaced: false }
}

/** Returns the file field that a part's name refers to. Throws VALIDATION_ERROR if there is no such field. */
function fieldOf(fields: readonly FileField[], { name }: FormPart): FileField {
  const field = fields.find((one) => one.field === name)
  if (field) return field
  const names = fields.map((one) => one.field).join(', ')
  throw invalidPart(name, `is not a file; use ${names}, or put the field into ${jsonPart}`)
}

const invalidPart = (name: string, message: string) =>
  new Problem('VALIDATION_ERROR', 'The form has an invalid part', { errors: [{ field: name, message }] })

/** Discards the uploaded files that no row refers to, before the response is sent. */
async function endForm({ parts, received }: MultipartForm, { statusCode }: FastifyReply): Promise<void> {
  await parts.return()
  // After an error, an assigned file may not belong to a row, because its transaction may have failed.
  for (const { upload, isPlaced } of received) if (!isPlaced || statusCode >= 400) await upload.discard()
}
