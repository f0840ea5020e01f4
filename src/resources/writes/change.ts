import type { FastifyRequest } from 'fastify'
import { auditActor, authorOf, callerOf } from '../../http/policies/authenticate.ts'
import { meets, type preconditionOf } from '../../http/policies/conditional.ts'
import { Problem, preconditionFailed } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { JudgedRow } from '../../storage/rows/judged-rows.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { findJudged, notWritable } from '../access/enforce.ts'
import type { RowAccess } from '../access/rules.ts'
import { checkImmutable } from '../constraints/kept-fields.ts'
import { checkRules } from '../constraints/rules.ts'
import { checkChange } from '../constraints/writers.ts'
import type { Served } from '../declaration.ts'
import { asUnit } from './hooks.ts'
import { changeRow, present, type Values } from './row-writes.ts'
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

/** The conditions for changing a row, and what else to do in the same transaction. */
interface ChangeTerms {
  precondition: Precondition
  access: RowAccess | undefined
  /** Fields to record (`Writers.recorded`); none by default. */
  recorded?: readonly string[]
  /** Runs in the transaction after the row has been changed. */
  afterUpdate?: AfterUpdate | undefined
}

type AfterUpdate = (tx: Queryable, now: string) => Promise<unknown>

/** Returns the precondition for the statement that changes or deletes a row. */
export const rowPrecondition = ({ precondition, access }: ChangeTerms) =>
  access ? { ...precondition, passes: access.write } : precondition

/** A row after its change, and the number of the change (`ChangeTracker.pending`) if the engine numbers changes. */
export interface WrittenRow {
  row: Row
  asOf: number | undefined
}

/**
 * Changes a row that meets the conditions in `terms`. Throws 404, 403 or 412 if there is no such row, and 409 if the
 * row is locked.
 */
export async function change(
  served: Served,
  request: RowRequest,
  values: Values,
  terms: ChangeTerms,
): Promise<WrittenRow> {
  const { id } = request.params
  const now = new Date(served.now()).toISOString()
  const caller = authorOf(request)
  const { access, recorded = [], afterUpdate } = terms
  const precondition = rowPrecondition(terms)
  const reaching = served.references?.reachOf(caller)
  const reach = reaching && (await reaching)
  const work = (tx: Queryable) =>
    asUnit(served.code, tx, { caller, now }, async (by) => {
      const row = await changeRow(served, tx, { id, values, precondition, access, reach }, by)
      if (row) await afterUpdate?.(tx, now)
      const about = { id, fields: recorded, values, caller, actor: auditActor(request) }
      if (row && recorded.length > 0) await served.guard?.record?.(tx, about)
      return row && { row, asOf: served.rows.changes?.pending() }
    })
  const attempted = async () => {
    const row = await served.rows.find(id)
    return row && { ...row, ...present(values) }
  }
  return (await writeUnit(served, access, attempted)(work)) ?? throwUnmatched(served, id, access)
}

/**
 * Throws the problem for a write that matched no row: 404 if the caller cannot read the row, 403 if the caller may only
 * read it, otherwise 412.
 */
export async function throwUnmatched(served: Served, id: RowId, access: RowAccess | undefined): Promise<never> {
  await writableRow(served, id, access)
  throw preconditionFailed(`The ${served.declaration.noun} ${id}`)
}

const maxAttempts = 10

/**
 * Changes a row to values computed from its current values. If another request changes the row in the meantime, starts
 * again with the new row; after ten attempts, throws 503. Throws 404 or 403 before validating the values if the caller
 * may not read or write the row. `afterUpdate` runs in the transaction after the row has been changed.
 */
export async function revise(
  served: Served,
  request: RowRequest,
  precondition: Precondition,
  valuesFrom: (row: Row) => Values,
  afterUpdate?: AfterUpdate,
): Promise<WrittenRow> {
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
