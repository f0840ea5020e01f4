import type { FastifyReply, FastifyRequest } from 'fastify'
import { applyMergePatch } from '../http/merge-patch.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import { checkAddition, meets, preconditionOf } from '../http/policies/conditional.ts'
import { fromValidation } from '../http/problems/framework-errors.ts'
import { Problem } from '../http/problems/problem.ts'
import { type InTransaction, idempotentWrite } from '../idempotency/idempotent-write.ts'
import type { Queryable } from '../storage/database.ts'
import type { Row } from '../storage/rows/rows.ts'
import type { GuardedChange, Served } from './declaration.ts'
import { columnName } from './table.ts'

export type RowParams = FastifyRequest<{ Params: { id: number } }>
export type WriteOutcome = FastifyRequest<{ Params: { id: number }; Body: Record<string, unknown> }>

/** The 404 response of a resource. */
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
  const whole = complete(body)
  for (const name of fieldNames) values[name] = whole[name] ?? null
  for (const [name, normalize] of normalizers) if (values[name] !== null) values[name] = normalize(values[name])
  return values
}

/** 201 with the new resource, its location and its validators. */
export function create(served: Served, request: WriteOutcome, reply: FastifyReply): Promise<object> {
  checkAddition(request)
  const now = new Date(served.now()).toISOString()
  const values = valuesOf(served, request.body)
  const caller = callerOf(request)
  return idempotentWrite(request, reply, writer(served), async (tx) => {
    const { row, heard } = await served.rows.insert(tx, values, now)
    if (heard) await served.announce(tx, 'created', row, caller, now)
    const location = `${served.prefix}${served.declaration.path}/${row.id}`
    return { status: 201, headers: { location }, body: served.show(row, request) }
  })
}

/** Runs writes; a duplicate value of a unique field is a conflict (409). */
function writer({ db, declaration }: Served): InTransaction<Queryable> {
  const { unique, noun } = declaration
  if (unique.length === 0) return db.write
  return (unit) =>
    db.write(unit).catch((error) => {
      if (!db.engine.isDuplicate(error)) throw error
      const column = db.engine.duplicateColumn(error)?.replace(/_key$/, '')
      const field = unique.find((name) => columnName(name) === column) ?? (unique[0] as string)
      const errors = [{ field, message: 'is in use already' }]
      throw new Problem('DUPLICATE_RESOURCE', `Another ${noun} has this ${field}`, { errors })
    })
}

/** Replaces the whole resource; absent fields get their default, or are removed where there is none. */
export async function replace(served: Served, request: WriteOutcome): Promise<Row> {
  const demands = preconditionOf(request, served.requireIfMatch)
  const values = valuesOf(served, request.body)
  for (const field of unseen(served, request)) if (!(field in request.body)) delete values[field]
  return change(served, request, values, demands)
}

/** Fields hidden from this caller: a replacement has to omit them, so they keep their values. */
function unseen({ declaration: { hides } }: Served, request: WriteOutcome): readonly string[] {
  return hides && !hides.unless(callerOf(request), request.params.id) ? hides.fields : []
}

type Demands = ReturnType<typeof preconditionOf>

/** Runs a change under the guard of its resource, if there is one. */
const guarded = <T>({ guard }: Served, tx: Queryable, change: GuardedChange, run: () => Promise<T | undefined>) =>
  guard ? guard.change(tx, change, run) : run()

type Values = Record<string, unknown>

async function change(served: Served, request: RowParams, values: Values, demands: Demands): Promise<Row> {
  const { id } = request.params
  const now = new Date(served.now()).toISOString()
  const caller = callerOf(request)
  const unit = async (tx: Queryable) => {
    const update = () => served.rows.update(tx, id, values, demands, now)
    const changed = await guarded(served, tx, { id, values, caller }, update)
    if (changed?.heard) await served.announce(tx, 'updated', changed.row, caller, now)
    return changed?.row
  }
  return (await writer(served)(unit)) ?? refused(served, id)
}

/** Called when a write matched no row: 404 if the row does not exist, 412 if it does not meet the precondition. */
async function refused(served: Served, id: number): Promise<never> {
  if ((await served.rows.find(id)) === undefined) throw notFound(served, id)
  throw new Problem(
    'PRECONDITION_FAILED',
    `The ${served.declaration.noun} ${id} does not meet the request's conditions`,
  )
}

const patchTries = 10

/**
 * Merge patch (RFC 7396): read, merge, validate, and write if the row is unchanged; else retry with the new row. The result
 * equals
 * a PUT of the merged resource: a field removed by null gets its default again.
 */
export async function patch(served: Served, request: WriteOutcome): Promise<Row> {
  const { id } = request.params
  const demands = preconditionOf(request, served.requireIfMatch)
  refuseBroken(served, request.body)
  for (let tried = 0; tried < patchTries; tried++) {
    const row = await served.rows.find(id)
    if (row === undefined) throw notFound(served, id)
    const values = checked(served, applyMergePatch(row, request.body) as Record<string, unknown>)
    if (!meets(row, demands)) {
      // Authorization precedes preconditions (RFC 9110 §13.2.1): the guard runs, with a precondition that no row meets.
      return served.guard ? change(served, request, values, { matches: [] }) : refused(served, id)
    }
    const changed = await change(served, request, values, { ...demands, matches: [row.revision] }).catch(whenOutdated)
    if (changed) return changed
  }
  throw new Problem('SERVICE_UNAVAILABLE', 'Others keep changing this resource, try again', {
    headers: { 'retry-after': '1' },
  })
}

/** Rejects invalid members of a patch before reading the resource. */
function refuseBroken({ fieldNames, check }: Served, body: Record<string, unknown>): void {
  const sent = fieldNames.filter((name) => Object.hasOwn(body, name) && isWhole(body[name]))
  const result = check(Object.fromEntries(sent.map((name) => [name, body[name]])))
  // An absent field stays unchanged; only a null removes it.
  const broken = ('error' in result ? result.error : []).flatMap((failure) => {
    if (failure.keyword !== 'required') return [failure]
    const requiredProperties = (failure.params.requiredProperties as string[]).filter((name) => body[name] === null)
    return requiredProperties.length > 0 ? [{ ...failure, params: { requiredProperties } }] : []
  })
  if (broken.length > 0) throw fromValidation(broken, 'body')
}

/** Whether a patch member is a complete value: null removes one, and an object is a patch of the existing one. */
const isWhole = (value: unknown) => typeof value !== 'object' || Array.isArray(value)

function whenOutdated(error: unknown): undefined {
  if (error instanceof Problem && error.code === 'PRECONDITION_FAILED') return
  throw error
}

/** Validates the merged resource as PUT would. */
function checked(served: Served, merged: Record<string, unknown>) {
  const present = served.fieldNames.filter((name) => merged[name] !== null && merged[name] !== undefined)
  const candidate = Object.fromEntries(present.map((name) => [name, merged[name]]))
  const result = served.check(candidate)
  if ('error' in result) throw fromValidation(result.error, 'body')
  return valuesOf(served, candidate)
}

/** Deletes the resource if it meets the precondition; 404 or 412 otherwise. */
export async function removeRow(served: Served, request: RowParams): Promise<void> {
  const { id } = request.params
  const demands = preconditionOf(request, served.requireIfMatch)
  const now = new Date(served.now()).toISOString()
  const caller = callerOf(request)
  const removed = await served.db.write(async (tx) => {
    const removal = { id, values: null, caller }
    const gone = await guarded(served, tx, removal, () => served.rows.remove(tx, id, demands))
    if (gone?.heard) await served.announce(tx, 'deleted', { id }, caller, now)
    return gone !== undefined
  })
  if (!removed) await refused(served, id)
}
