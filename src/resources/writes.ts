import type { FastifyReply, FastifyRequest } from 'fastify'
import { applyMergePatch } from '../http/merge-patch.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import { checkAddition, meets, preconditionOf } from '../http/policies/conditional.ts'
import { fromValidation } from '../http/problems/framework-errors.ts'
import { Problem } from '../http/problems/problem.ts'
import { idempotentWrite, type Write } from '../idempotency/idempotent-write.ts'
import type { Queryable } from '../storage/database.ts'
import type { Row } from '../storage/rows/rows.ts'
import { columnName } from './column-types.ts'
import type { GuardedChange, Served } from './declaration.ts'

export type ById = FastifyRequest<{ Params: { id: number } }>
export type Written = FastifyRequest<{ Params: { id: number }; Body: Record<string, unknown> }>

/** The 404 of a resource. */
export const notFound = ({ declaration }: Served, id: number) =>
  new Problem('RESOURCE_NOT_FOUND', `There is no ${declaration.noun} ${Number.isSafeInteger(id) ? id : 'with this id'}`)

/**
 * The declared fields of a body: unknown and read-only ones are ignored, absent ones have their default or become null,
 * instants are UTC.
 */
function valuesOf({ fieldNames, instants, complete }: Served, body: Record<string, unknown>): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  const whole = complete(body)
  for (const name of fieldNames) values[name] = whole[name] ?? null
  for (const name of instants) if (values[name] !== null) values[name] = new Date(String(values[name])).toISOString()
  return values
}

/** 201 with the new resource, its place and its validators. */
export function create(served: Served, request: Written, reply: FastifyReply): Promise<object> {
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

/** Runs writes; where a unique field's value is taken by another row that is a conflict (409). */
function writer({ db, declaration }: Served): Write<Queryable> {
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

/** The whole resource anew; absent fields have their default, or are removed where there is none. */
export async function replace(served: Served, request: Written): Promise<Row> {
  const demands = preconditionOf(request, served.requireIfMatch)
  const values = valuesOf(served, request.body)
  for (const field of unseen(served, request)) if (!(field in request.body)) delete values[field]
  return change(served, request, values, demands)
}

/** Fields that this caller does not see: a replacement that leaves them out, as it must, leaves them as they are. */
function unseen({ declaration: { hides } }: Served, request: Written): readonly string[] {
  return hides && !hides.unless(callerOf(request), request.params.id) ? hides.fields : []
}

type Demands = ReturnType<typeof preconditionOf>

/** Runs a change under the guard of its resource, where it has one. */
const guarded = <T>({ guard }: Served, tx: Queryable, change: GuardedChange, run: () => Promise<T | undefined>) =>
  guard ? guard.change(tx, change, run) : run()

type Values = Record<string, unknown>

async function change(served: Served, request: ById, values: Values, demands: Demands): Promise<Row> {
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

/** A write met no row: one look decides whether there is none (404) or it has changed (412). */
async function refused(served: Served, id: number): Promise<never> {
  if ((await served.rows.find(id)) === undefined) throw notFound(served, id)
  throw new Problem(
    'PRECONDITION_FAILED',
    `The ${served.declaration.noun} ${id} does not meet the request's conditions`,
  )
}

const patchTries = 10

/**
 * Merge patch (RFC 7396): read, merge, check, and write if nobody was faster; else once more with the new row. It leaves what
 * a PUT of the merged resource would: a field that null removes has its default again.
 */
export async function patch(served: Served, request: Written): Promise<Row> {
  const { id } = request.params
  const demands = preconditionOf(request, served.requireIfMatch)
  refuseBroken(served, request.body)
  for (let tried = 0; tried < patchTries; tried++) {
    const row = await served.rows.find(id)
    if (row === undefined) throw notFound(served, id)
    const values = checked(served, applyMergePatch(row, request.body) as Record<string, unknown>)
    if (!meets(row, demands)) {
      // What this caller may not do at all is refused first (RFC 9110 §13.2.1); no row meets these demands.
      return served.guard ? change(served, request, values, { matches: [] }) : refused(served, id)
    }
    const changed = await change(served, request, values, { ...demands, matches: [row.revision] }).catch(whenOutdated)
    if (changed) return changed
  }
  throw new Problem('SERVICE_UNAVAILABLE', 'Others keep changing this resource, try again', {
    headers: { 'retry-after': '1' },
  })
}

/** What the members of a patch break by themselves is told before the state of the resource is looked at. */
function refuseBroken({ fieldNames, check }: Served, body: Record<string, unknown>): void {
  const sent = fieldNames.filter((name) => Object.hasOwn(body, name) && isWhole(body[name]))
  const result = check(Object.fromEntries(sent.map((name) => [name, body[name]])))
  // Absent is what the patch leaves as it is; only a null takes away.
  const broken = ('error' in result ? result.error : []).flatMap((failure) => {
    if (failure.keyword !== 'required') return [failure]
    const requiredProperties = (failure.params.requiredProperties as string[]).filter((name) => body[name] === null)
    return requiredProperties.length > 0 ? [{ ...failure, params: { requiredProperties } }] : []
  })
  if (broken.length > 0) throw fromValidation(broken, 'body')
}

/** What of a patch is a value: null takes one away, and an object is a patch of the one that is there. */
const isWhole = (value: unknown) => typeof value !== 'object' || Array.isArray(value)

function whenOutdated(error: unknown): undefined {
  if (error instanceof Problem && error.code === 'PRECONDITION_FAILED') return
  throw error
}

/** The merged resource must be one that PUT would accept. */
function checked(served: Served, merged: Record<string, unknown>) {
  const present = served.fieldNames.filter((name) => merged[name] !== null && merged[name] !== undefined)
  const candidate = Object.fromEntries(present.map((name) => [name, merged[name]]))
  const result = served.check(candidate)
  if ('error' in result) throw fromValidation(result.error, 'body')
  return valuesOf(served, candidate)
}

/** Removes the resource if it meets the demands; 404 and 412 otherwise. */
export async function remove(served: Served, request: ById): Promise<void> {
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
