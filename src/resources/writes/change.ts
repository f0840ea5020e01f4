import type { FastifyRequest } from 'fastify'
import { authorOf, callerOf } from '../../http/policies/authenticate.ts'
import { meets, type preconditionOf } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { JudgedRow } from '../../storage/rows/judged-rows.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { assertStorable, findJudged, notWritable } from '../access/enforce.ts'
import type { RowAccess } from '../access/rules.ts'
import { checkImmutable } from '../constraints/kept-fields.ts'
import { checkRules } from '../constraints/rules.ts'
import { checkChange } from '../constraints/writers.ts'
import type { Served } from '../declaration.ts'
import type { GuardedChange } from './guard.ts'
import { writeUnit } from './write-unit.ts'

export type RowRequest = FastifyRequest<{ Params: { id: RowId } }>
export type BodyRequest = FastifyRequest<{ Params: { id: RowId }; Body: Record<string, unknown> }>

/** Returns the 404 problem for a missing row. */
export const notFound = ({ declaration }: Served, id: RowId) =>
  new Problem(
    'RESOURCE_NOT_FOUND',
    `There is no ${declaration.noun} ${typeof id === 'string' || Number.isSafeInteger(id) ? id : 'with this id'}`,
  )

/** Reads a row. Throws 404 if it does not exist or the caller cannot read it. */
export async function readableRow(served: Served, id: RowId, access: RowAccess | undefined): Promise<Row> {
  return (await readableAndJudged(served, id, access)).row
}

async function readableAndJudged(served: Served, id: RowId, access: RowAccess | undefined): Promise<JudgedRow<Row>> {
  const found = await findJudged(served, id, access)
  if (found === undefined || !found.canRead) throw notFound(served, id)
  return found
}

/**
 * Reads a row that the caller wants to change. Throws 404 like `readableRow`, and 403 if the caller may only read the
 * row.
 */
export async function writableRow(served: Served, id: RowId, access: RowAccess | undefined): Promise<Row> {
  const { row, canWrite } = await readableAndJudged(served, id, access)
  if (!canWrite) throw notWritable(served.declaration, 'change')
  return row
}

type Precondition = ReturnType<typeof preconditionOf>

/** Runs a change through the resource's guard, if it has one. */
export const guarded = <T>(
  { guard }: Served,
  tx: Queryable,
  change: GuardedChange,
  run: () => Promise<T | undefined>,
) => (guard ? guard.change(tx, change, run) : run())

export type Values = Record<string, unknown>

/** The conditions under which a row is changed. */
interface ChangeTerms {
  precondition: Precondition
  access: RowAccess | undefined
  /** Fields to record (`Writers.recorded`); none by default. */
  recorded?: readonly string[]
  /** Runs in the transaction after the row was changed. */
  afterUpdate?: AfterUpdate | undefined
}

type AfterUpdate = (tx: Queryable, now: string) => Promise<unknown>

/** Returns the precondition for the statement that changes a row. */
export const rowPrecondition = ({ precondition, access }: ChangeTerms) =>
  access ? { ...precondition, passes: access.write } : precondition

/** Changes a row that meets the terms. Throws 404, 403 or 412 if there is no such row, and 409 if the row is locked. */
export async function change(served: Served, request: RowRequest, values: Values, terms: ChangeTerms): Promise<Row> {
  const { id } = request.params
  const now = new Date(served.now()).toISOString()
  const caller = authorOf(request)
  const { access, recorded = [], afterUpdate } = terms
  const precondition = rowPrecondition(terms)
  const reaching = served.references?.reachOf(caller)
  const reach = reaching && (await reaching)
  const work = async (tx: Queryable) => {
    const update = async () => {
      const { references, rows, lock, totals } = served
      const settle = totals && (await totals.changed(tx, id, values, precondition))
      if (totals && settle === undefined) return undefined
      if (lock && !(await lock.one(tx, id, precondition, 'change'))) return undefined
      if (references && !(await references.changed(tx, { id, precondition }, values, reach))) return undefined
      const updated = await rows.update(tx, id, values, precondition, now)
      const shown = updated && settle && (await settle({ caller, now }))
      // A row may refer to itself.
      const own = shown?.find((one) => one.table === served.declaration.table && one.id === id)
      return updated && own ? { ...updated, row: own.row } : updated
    }
    const changed = await guarded(served, tx, { id, values, caller }, update)
    if (changed && access) await assertStorable(served, tx, access, changed.row)
    if (changed && served.lock?.placed) await served.lock.placed(tx, values)
    if (changed) await afterUpdate?.(tx, now)
    if (changed?.subscribed) await served.announce(tx, 'updated', changed.row, caller, now)
    if (changed && recorded.length > 0) await served.guard?.record?.(tx, { id, fields: recorded, values, request })
    return changed?.row
  }
  const attempted = async () => {
    const row = await served.rows.find(id)
    return row && { ...row, ...present(values) }
  }
  return (await writeUnit(served, access, attempted)(work)) ?? throwUnmatched(served, id, access)
}

/** Returns the values that a change sets. Omits undefined values, which stand for fields that the change keeps. */
const present = (values: Values) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))

/**
 * Throws the problem for a write that matched no row: 404 if the caller cannot read the row, 403 if the caller may only
 * read it, otherwise 412.
 */
export async function throwUnmatched(served: Served, id: RowId, access: RowAccess | undefined): Promise<never> {
  await writableRow(served, id, access)
  throw new Problem(
    'PRECONDITION_FAILED',
    `The ${served.declaration.noun} ${id} does not meet the request's conditions`,
  )
}

const maxAttempts = 10

/**
 * Changes a row to values computed from its current values. If the row has changed since it was read, starts again with
 * the new row. Throws 404 or 403 before comparing values if the caller may not read or write the row. `afterUpdate` runs in
 * the transaction after the row was changed.
 */
export async function revise(
  served: Served,
  request: RowRequest,
  precondition: Precondition,
  valuesFrom: (row: Row) => Values,
  afterUpdate?: AfterUpdate,
): Promise<Row> {
  const { id } = request.params
  const access = served.accessOf && (await served.accessOf(callerOf(request)))
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const row = await writableRow(served, id, access)
    const values = valuesFrom(row)
    checkImmutable(served.declaration.immutable, row, values)
    const recorded = checkChange(served.declaration.writers, row, values, { caller: callerOf(request), id })
    checkRules(served.declaration, values)
    if (!meets(row, precondition)) {
      // Authorization comes before preconditions (RFC 9110 §13.2.1), so the guard still runs, with a precondition that
      // no row meets.
      return served.guard
        ? change(served, request, values, { precondition: { matches: [] }, access })
        : throwUnmatched(served, id, access)
    }
    const unchanged = { ...precondition, matches: [row.revision] }
    const terms = { precondition: unchanged, access, recorded, afterUpdate }
    const changed = await change(served, request, values, terms).catch(ignoreOutdated)
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
