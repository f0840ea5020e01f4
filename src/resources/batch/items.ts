import type { FastifyRequest } from 'fastify'
import { callerOf } from '../../http/policies/authenticate.ts'
import { lacksScope } from '../../http/policies/authorize.ts'
import { type Precondition, preconditionOf } from '../../http/policies/conditional.ts'
import { mustBeOneOf } from '../../http/problems/allowed-values.ts'
import { type FieldError, Problem } from '../../http/problems/problem.ts'
import { mustBeUuid, uuidOf } from '../../http/uuid.ts'
import type { RowId } from '../../storage/ids.ts'
import type { Values } from '../writes/row-writes.ts'
import {
  batchReferenceErrors,
  batchValueErrors,
  type ResultReference,
  type Results,
  referencesIn,
  resolved,
} from './references.ts'
import type { BatchItem, ItemMethod } from './schemas.ts'
import type { Target, Targets } from './targets.ts'

/** An item of a batch: its index and its method. */
interface Place {
  at: number
  method: ItemMethod
}

/** One write of a batch, validated as far as possible without reading rows. */
export interface ItemWrite extends Place {
  target: Target
  precondition: Precondition
  /**
   * Replaces references with their values, and returns the validated body and the id (unused for a POST). Throws a
   * `Problem` if one of these values is invalid.
   */
  input: (results: Results) => Input
}

interface Input {
  id: RowId
  body: Values
}

/**
 * Validates the items of a batch as far as possible without reading rows: method, scope, members, references and body.
 * Throws the problem of the first invalid item.
 */
export function writesOf(
  request: FastifyRequest,
  items: readonly BatchItem[],
  { target: targetOf }: Targets,
  requireIfMatch: boolean,
): ItemWrite[] {
  const hasRow = (item: number) => items[item]?.method !== 'DELETE'
  return items.map((item, at) => {
    const { method, collection, id, ifMatch, body = {} } = item
    const place = { at, method }
    const target = targetOf(collection)
    const { methods, served } = target
    if (!methods.includes(method)) throw invalid(at, 'method', `${mustBeOneOf(methods)} for ${collection}`)
    checkScope(request, target, place)
    checkMembers(item, at)
    const references = [...referencesIn(id, 'id'), ...referencesIn(body, 'body')]
    throwInvalid(at, batchReferenceErrors(references, at, hasRow))
    // Remove references first: `$ref` would otherwise be reported as an unknown member.
    if (request.preferences?.handling === 'strict')
      inItem(place, () => target.rejectUnknown(method, resolved(body, []) as Values))
    // Convert decimals before the body is copied: `isLongNumber` recognizes long numbers only in the original objects.
    served.readDecimals?.(body)
    const read = (results: Results) => inputOf(place, target, { id, body, references }, results)
    const known = references.length === 0 ? read([]) : undefined
    const headers = ifMatch === undefined ? {} : { 'if-match': ifMatch }
    const precondition = method === 'POST' ? {} : inItem(place, () => preconditionOf({ headers }, requireIfMatch))
    return { ...place, target, precondition, input: (results) => known ?? read(results) }
  })
}

/** Throws 403 if the caller lacks the scope of an item. */
function checkScope(request: FastifyRequest, { served }: Target, { at, method }: Place): void {
  const { name, writers } = served.declaration
  const { scopes } = callerOf(request)
  const isChange = method === 'PUT' || method === 'PATCH'
  if (scopes.has(`${name}:write`) || (isChange && writers?.orScope && scopes.has(writers.orScope))) return
  throw itemError({ at, method }, lacksScope(`${name}:write`))
}

/** Throws if an item lacks a member that its method needs, or has one that its method does not use. */
function checkMembers(item: BatchItem, at: number): void {
  const { method } = item
  const needed = [...(method === 'POST' ? [] : ['id']), ...(method === 'DELETE' ? [] : ['body'])]
  const missing = needed
    .filter((name) => !Object.hasOwn(item, name))
    .map((name) => ({ field: `items.${at}.${name}`, message: 'is required' }))
  const names = missing.map(({ field }) => field).join(', ')
  if (missing.length > 0)
    throw new Problem('MISSING_REQUIRED_FIELD', `Missing required fields: ${names}`, { errors: missing })
  const used = ['method', 'collection', ...needed, ...(method === 'POST' ? [] : ['ifMatch'])]
  const unused = Object.keys(item).filter((name) => !used.includes(name))
  throwInvalid(
    at,
    unused.map((field) => ({ field, message: `is not allowed with ${method}; use ${used.join(', ')}` })),
  )
}

interface Sent {
  id: unknown
  body: Values
  references: readonly ResultReference[]
}

function inputOf(place: Place, target: Target, { id, body, references }: Sent, results: Results): Input {
  const { at, method } = place
  throwInvalid(at, batchValueErrors(references, results))
  const resolve = <T>(value: T) => (references.length > 0 ? (resolved(value, results) as T) : value)
  return {
    id: method === 'POST' ? 0 : rowIdOf(target, resolve(id), at),
    body: method === 'DELETE' ? {} : inItem(place, () => target.validated(method, resolve(body))),
  }
}

function rowIdOf({ served }: Target, id: unknown, at: number): RowId {
  if (served.declaration.ids === 'uuid') {
    const uuid = typeof id === 'string' ? uuidOf(id) : undefined
    if (uuid === undefined) throw invalid(at, 'id', mustBeUuid)
    return uuid
  }
  if (!Number.isSafeInteger(id) || Number(id) < 1) throw invalid(at, 'id', 'must be an integer of at least 1')
  return id as number
}

const invalid = (at: number, field: string, message: string) => invalidItem(at, [{ field, message }])

function throwInvalid(at: number, errors: readonly FieldError[]): void {
  if (errors.length > 0) throw invalidItem(at, errors)
}

const invalidItem = (at: number, errors: readonly FieldError[]) =>
  new Problem('VALIDATION_ERROR', `items.${at}: Some fields break a rule`, {
    errors: errors.map(({ field, message }) => ({ field: `items.${at}.${field}`, message })),
  })

/** Runs a check of an item. If the check throws a `Problem`, adds the item to its message and field names. */
function inItem<T>(place: Place, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw itemError(place, error)
  }
}

/** Returns a problem with the item added to its message and field names; returns any other error unchanged. */
export function itemError({ at, method }: Place, error: unknown): unknown {
  if (!(error instanceof Problem)) return error
  const { code, message, headers } = error
  const item = `items.${at}`
  const within = (field: string) => (method === 'DELETE' || field === 'body' ? field : `body.${field}`)
  const errors = error.errors?.map(({ field, message }) => ({ field: `${item}.${within(field)}`, message })) ?? [
    { field: item, message },
  ]
  return new Problem(code, `${item}: ${message}`, { errors, cause: error.cause ?? error, ...(headers && { headers }) })
}
