import type { FastifyReply, FastifyRequest } from 'fastify'
import { applyMergePatch } from '../http/merge-patch.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import { checkPostPreconditions, meets, preconditionOf } from '../http/policies/conditional.ts'
import { fromValidation } from '../http/problems/framework-errors.ts'
import { Problem } from '../http/problems/problem.ts'
import { type InTransaction, idempotentWrite } from '../idempotency/idempotent-write.ts'
import type { Queryable } from '../storage/database.ts'
import type { Row } from '../storage/rows/rows.ts'
import { assertWithinReach, assertWritable, canRead } from './access/enforce.ts'
import type { RowAccess } from './access/rules.ts'
import type { GuardedChange, Served } from './declaration.ts'
import { columnName } from './table.ts'

export type RowRequest = FastifyRequest<{ Params: { id: number } }>
export type BodyRequest = FastifyRequest<{ Params: { id: number }; Body: Record<string, unknown> }>

/** The 404 problem for a missing row. */
export const notFound = ({ declaration }: Served, id: number) =>
  new Problem('RESOURCE_NOT_FOUND', `There is no ${declaration.noun} ${Number.isSafeInteger(id) ? id : 'with this id'}`)

/**
 * The declared fields of a body: unknown and read-only fields are ignored, absent ones get their default or null, and
 * instants are converted to UTC.
 */
function valuesOf(
  { fieldNames, normalizers, complete }: Served,
  body: Record<string, unknown>,
): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  const filled = complete(body)
  for (const name of fieldNames) values[name] = filled[name] ?? null
  for (const [name, normalize] of normalizers) if (values[name] !== null) values[name] = normalize(values[name])
  return values
}

/** POST: 201 with the new resource, its location and its validators. */
export async function create(served: Served, request: BodyRequest, reply: FastifyReply): Promise<object> {
  checkPostPreconditions(request)
  const now = new Date(served.now()).toISOString()
  const values = valuesOf(served, request.body)
  const caller = callerOf(request)
  const access = await served.accessOf?.(caller)
  if (access) values.createdBy = access.createdBy
  return idempotentWrite(request, reply, writeUnit(served), async (tx) => {
    if (served.references) await served.references.created(tx, values)
    const { row, subscribed } = await served.rows.insert(tx, values, now)
    assertWithinReach(served.declaration, access, row)
    if (subscribed) await served.announce(tx, 'created', row, caller, now)
    const location = `${served.prefix}${served.declaration.path}/${row.id}`
    return { status: 201, headers: { location }, body: served.serialize(row, request) }
  })
}

/** Returns `db.write`, with 409 DUPLICATE_RESOURCE for a duplicate value of a unique field. */
function writeUnit({ db, declaration }: Served): InTransaction<Queryable> {
  const { unique, noun } = declaration
  if (unique.length === 0) return db.write
  return (work) =>
    db.write(work).catch((error) => {
      if (!db.engine.isDuplicate(error)) throw error
      const column = db.engine.duplicateColumn(error)?.replace(/_key$/, '')
      const field = unique.find((name) => columnName(name) === column) ?? (unique[0] as string)
      const errors = [{ field, message: 'is in use already' }]
      throw new Problem('DUPLICATE_RESOURCE', `Another ${noun} has this ${field}`, { errors })
    })
}

/** PUT: replaces the whole resource; absent fields get their default, or are removed if they have none. */
export async function replace(served: Served, request: BodyRequest): Promise<Row> {
  const precondition = preconditionOf(request, served.requireIfMatch)
  const values = valuesOf(served, request.body)
  for (const field of hiddenFields(served, request)) if (!(field in request.body)) delete values[field]
  return change(served, request, values, precondition)
}

/** Fields hidden from this caller, who cannot send them back in a PUT: they keep their values. */
function hiddenFields({ declaration: { hides } }: Served, request: BodyRequest): readonly string[] {
  return hides && !hides.unless(callerOf(request), request.params.id) ? hides.fields : []
}

type Precondition = ReturnType<typeof preconditionOf>

/** Runs a change under the guard of the resource, if it has one. */
const guarded = <T>({ guard }: Served, tx: Queryable, change: GuardedChange, run: () => Promise<T | undefined>) =>
  guard ? guard.change(tx, change, run) : run()

type Values = Record<string, unknown>

async function change(served: Served, request: RowRequest, values: Values, sent: Precondition): Promise<Row> {
  const { id } = request.params
  const now = new Date(served.now()).toISOString()
  const caller = callerOf(request)
  const access = await served.accessOf?.(caller)
  const precondition = { ...sent, passes: access?.write }
  const work = async (tx: Queryable) => {
    const update = async () => {
      const { references, rows } = served
      if (references && !(await references.changed(tx, id, values, precondition))) return undefined
      return rows.update(tx, id, values, precondition, now)
    }
    const changed = await guarded(served, tx, { id, values, caller }, update)
    if (changed) assertWithinReach(served.declaration, access, changed.row)
    if (changed?.subscribed) await served.announce(tx, 'updated', changed.row, caller, now)
    return changed?.row
  }
  return (await writeUnit(served)(work)) ?? throwUnmatched(served, id, access)
}

/** For a write that matched no row: 404 if the caller can read no such row, 403 if it may only read it, otherwise 412. */
async function throwUnmatched(served: Served, id: number, access: RowAccess | undefined): Promise<never> {
  const row = await served.rows.find(id)
  if (row === undefined || !canRead(served.declaration, access, row)) throw notFound(served, id)
  assertWritable(served.declaration, access, row)
  throw new Problem(
    'PRECONDITION_FAILED',
    `The ${served.declaration.noun} ${id} does not meet the request's conditions`,
  )
}

const maxPatchAttempts = 10

/**
 * PATCH with a merge patch (RFC 7396): reads, merges, validates, writes if the row is unchanged, and otherwise retries with
 * the new row. The result equals a PUT of the merged resource: a field removed by null gets its default again.
 */
export async function patch(served: Served, request: BodyRequest): Promise<Row> {
  const { id } = request.params
  const precondition = preconditionOf(request, served.requireIfMatch)
  // Before the body is copied, because `readJson` notes long numbers by the object that has them.
  served.readDecimals?.(request.body)
  rejectInvalidMembers(served, request.body)
  const access = await served.accessOf?.(callerOf(request))
  for (let attempt = 0; attempt < maxPatchAttempts; attempt++) {
    const row = await served.rows.find(id)
    if (row === undefined || !canRead(served.declaration, access, row)) throw notFound(served, id)
    assertWritable(served.declaration, access, row)
    const values = validated(served, applyMergePatch(row, request.body) as Record<string, unknown>)
    if (!meets(row, precondition)) {
      // Authorization precedes preconditions (RFC 9110 §13.2.1), so the guard still runs; no row meets this precondition.
      return served.guard ? change(served, request, values, { matches: [] }) : throwUnmatched(served, id, access)
    }
    const changed = await change(served, request, values, { ...precondition, matches: [row.revision] }).catch(
      ignoreOutdated,
    )
    if (changed) return changed
  }
  throw new Problem('SERVICE_UNAVAILABLE', 'Other requests keep changing this resource; try again', {
    headers: { 'retry-after': '1' },
  })
}

/** Rejects a patch with invalid members before the resource is read. */
function rejectInvalidMembers({ fieldNames, check }: Served, body: Record<string, unknown>): void {
  const sent = fieldNames.filter((name) => Object.hasOwn(body, name) && isCompleteValue(body[name]))
  const result = check(Object.fromEntries(sent.map((name) => [name, body[name]])))
  // A required field may be absent from a patch; only null would remove it.
  const failures = ('error' in result ? result.error : []).flatMap((failure) => {
    if (failure.keyword !== 'required') return [failure]
    const requiredProperties = (failure.params.requiredProperties as string[]).filter((name) => body[name] === null)
    return requiredProperties.length > 0 ? [{ ...failure, params: { requiredProperties } }] : []
  })
  if (failures.length > 0) throw fromValidation(failures, 'body')
}

/** True unless a patch member is null, which removes the field, or an object, which patches the existing one. */
const isCompleteValue = (value: unknown) => typeof value !== 'object' || Array.isArray(value)

function ignoreOutdated(error: unknown): undefined {
  if (error instanceof Problem && error.code === 'PRECONDITION_FAILED') return
  throw error
}

/** Validates the merged resource as PUT would. */
function validated(served: Served, merged: Record<string, unknown>) {
  const present = served.fieldNames.filter((name) => merged[name] !== null && merged[name] !== undefined)
  const candidate = Object.fromEntries(present.map((name) => [name, merged[name]]))
  const result = served.check(candidate)
  if ('error' in result) throw fromValidation(result.error, 'body')
  return valuesOf(served, candidate)
}

/** Deletes the resource if it meets the precondition; 404 or 412 otherwise. */
export async function removeRow(served: Served, request: RowRequest): Promise<void> {
  const { id } = request.params
  const sent = preconditionOf(request, served.requireIfMatch)
  const now = new Date(served.now()).toISOString()
  const caller = callerOf(request)
  const access = await served.accessOf?.(caller)
  const precondition = { ...sent, passes: access?.write }
  const removed = await served.db.write(async (tx) => {
    const removal = { id, values: null, caller }
    const deleted = await guarded(served, tx, removal, () => served.remove(tx, id, precondition, { caller, now }))
    if (deleted?.subscribed) await served.announce(tx, 'deleted', { id }, caller, now)
    return deleted !== undefined
  })
  if (!removed) await throwUnmatched(served, id, access)
}
