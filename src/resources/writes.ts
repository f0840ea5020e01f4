import type { FastifyReply, FastifyRequest } from 'fastify'
import { applyMergePatch } from '../http/merge-patch.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import { checkPostPreconditions, meets, preconditionOf } from '../http/policies/conditional.ts'
import { Problem } from '../http/problems/problem.ts'
import { type InTransaction, idempotentWrite } from '../idempotency/idempotent-write.ts'
import type { Queryable } from '../storage/database.ts'
import type { Row } from '../storage/rows/rows.ts'
import { assertWithinReach, assertWritable, canRead } from './access/enforce.ts'
import type { RowAccess } from './access/rules.ts'
import { bodyValues, rejectInvalidMembers, validated } from './constraints/body-values.ts'
import { settable } from './constraints/creation.ts'
import { checkImmutable, keptFields } from './constraints/kept-fields.ts'
import { checkRules } from './constraints/rules.ts'
import { duplicateProblem } from './constraints/unique.ts'
import type { GuardedChange, Served } from './declaration.ts'

export type RowRequest = FastifyRequest<{ Params: { id: number } }>
export type BodyRequest = FastifyRequest<{ Params: { id: number }; Body: Record<string, unknown> }>

/** The 404 problem for a missing row. */
export const notFound = ({ declaration }: Served, id: number) =>
  new Problem('RESOURCE_NOT_FOUND', `There is no ${declaration.noun} ${Number.isSafeInteger(id) ? id : 'with this id'}`)

/** POST: 201 with the new resource, its location and its validators. */
export async function create(served: Served, request: BodyRequest, reply: FastifyReply): Promise<object> {
  checkPostPreconditions(request)
  const now = new Date(served.now()).toISOString()
  const values = bodyValues(served, served.created(request.body))
  checkRules(served.declaration, values)
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

/** Returns `db.write`, with 409 DUPLICATE_RESOURCE for a duplicate of unique values. */
function writeUnit({ db, declaration }: Served): InTransaction<Queryable> {
  if (declaration.unique.length + declaration.tuples.length === 0) return db.write
  return (work) =>
    db.write(work).catch((error) => {
      throw db.engine.isDuplicate(error) ? duplicateProblem(db.engine, error, declaration) : error
    })
}

/**
 * PUT: replaces the whole resource; absent fields get their default, or are removed if they have none. Fields that this
 * caller cannot see or change keep their values if they are absent.
 */
export async function replace(served: Served, request: BodyRequest): Promise<Row> {
  const precondition = preconditionOf(request, served.requireIfMatch)
  const { declaration } = served
  const body = settable(declaration, request.body)
  const kept = keptFields(declaration, callerOf(request), request.params.id).filter((field) => !(field in body))
  const values = bodyValues(served, body)
  const isRowNeeded = declaration.rules.length > 0 && kept.length > 0
  if (!isRowNeeded && !declaration.immutable.some((field) => field in body)) {
    checkRules(declaration, values)
    for (const field of kept) delete values[field]
    return change(served, request, values, precondition)
  }
  return revise(served, request, precondition, (row) => ({
    ...values,
    ...Object.fromEntries(kept.map((field) => [field, row[field]])),
  }))
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

const maxAttempts = 10

/**
 * PATCH with a merge patch (RFC 7396): reads, merges, validates and writes. The result equals a PUT of the merged
 * resource: a field removed by null gets its default again.
 */
export async function patch(served: Served, request: BodyRequest): Promise<Row> {
  const precondition = preconditionOf(request, served.requireIfMatch)
  // Before the body is copied, because `readJson` notes long numbers by the object that has them.
  served.readDecimals?.(request.body)
  const body = settable(served.declaration, request.body)
  rejectInvalidMembers(served, body)
  return revise(served, request, precondition, (row) =>
    validated(served, applyMergePatch(row, body) as Record<string, unknown>),
  )
}

/**
 * Changes a row to values that depend on it: writes them if the row is unchanged, and otherwise retries with the new row.
 * What the caller may not read or write is 404 or 403 before its values are compared.
 */
async function revise(
  served: Served,
  request: BodyRequest,
  precondition: Precondition,
  valuesFrom: (row: Row) => Values,
): Promise<Row> {
  const { id } = request.params
  const access = await served.accessOf?.(callerOf(request))
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const row = await served.rows.find(id)
    if (row === undefined || !canRead(served.declaration, access, row)) throw notFound(served, id)
    assertWritable(served.declaration, access, row)
    const values = valuesFrom(row)
    checkImmutable(served.declaration.immutable, row, values)
    checkRules(served.declaration, values)
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

function ignoreOutdated(error: unknown): undefined {
  if (error instanceof Problem && error.code === 'PRECONDITION_FAILED') return
  throw error
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
