import type { FastifyReply, FastifyRequest } from 'fastify'
import { applyMergePatch } from '../../http/merge-patch.ts'
import { auditActor, authorOf, callerOf } from '../../http/policies/authenticate.ts'
import { checkPostPreconditions, preconditionOf } from '../../http/policies/conditional.ts'
import { idempotentWrite, type WriteResponse } from '../../idempotency/idempotent-write.ts'
import type { Queryable } from '../../storage/database.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { Reach, RowAccess, RuleCaller } from '../access/rules.ts'
import { bodyValues, rejectInvalidMembers, validated } from '../constraints/body-values.ts'
import { settable } from '../constraints/creation.ts'
import { keptFields } from '../constraints/kept-fields.ts'
import { checkRules } from '../constraints/rules.ts'
import { checkCreation } from '../constraints/writers.ts'
import type { Served } from '../declaration.ts'
import { fileChange, formValues, insertWithFiles } from '../files/form.ts'
import {
  type BodyRequest,
  change,
  type RowRequest,
  readableRow,
  revise,
  rowPrecondition,
  throwUnmatched,
  type WrittenRow,
} from './change.ts'
import { asUnit } from './hooks.ts'
import { createInside } from './inside.ts'
import { deleteRow, type Insert, type Values } from './row-writes.ts'
import { writeUnit } from './write-unit.ts'

/**
 * Handles POST: responds with 201, the new resource, its location and its validators. Awaits only the write unless
 * access rules (of this or of referenced collections) or functions of `set` or `defaults` apply.
 */
export function create(served: Served, request: BodyRequest, reply: FastifyReply): Promise<object> {
  checkPostPreconditions(request)
  const sent = request.form ? { ...request.body, ...formValues(request) } : request.body
  const recorded = checkCreation(served.declaration.writers, sent, callerOf(request))
  const now = new Date(served.now()).toISOString()
  const { created, createdIn } = served.creator
  const valuesOf = (body: Values) => {
    const values = bodyValues(served, body)
    if (request.form) Object.assign(values, formValues(request))
    checkRules(served.declaration, values)
    return values
  }
  const valuesFor = (by?: RuleCaller<never>) =>
    createdIn
      ? async (tx: Queryable) => valuesOf(await createdIn(tx, request.body, by))
      : always(valuesOf(created(request.body, by)))
  const caller = callerOf(request)
  const insert = (by?: RuleCaller<never>, access?: RowAccess, reach?: Reach) =>
    insertRow(served, request, reply, { values: valuesFor(by), now, access, reach, recorded })
  const { creator, accessOf, references } = served
  const [creating, reaching, referring] = [creator.callerOf?.(caller), accessOf?.(caller), references?.reachOf(caller)]
  if (creating === undefined && reaching === undefined && referring === undefined) return insert()
  return Promise.all([creating, reaching, referring]).then(([by, access, reach]) => insert(by, access, reach))
}

const always = (values: Values) => async () => values

/**
 * Returns a function that checks a stored POST response before it is replayed. It throws 404 if the caller can no
 * longer read the created row.
 */
export const readableReplay =
  (served: Served) =>
  async (request: FastifyRequest, { body }: WriteResponse): Promise<void> => {
    await readableRow(served, (body as Row).id, await served.accessOf?.(callerOf(request)))
  }

interface NewRow {
  /** Returns the values to store; called in the transaction, because they may include numbers from counters. */
  values: (tx: Queryable) => Promise<Values>
  now: string
  access: RowAccess | undefined
  reach: Reach | undefined
  /** The fields to record (`Writers.recorded`). */
  recorded: readonly string[]
}

function insertRow(served: Served, request: BodyRequest, reply: FastifyReply, newRow: NewRow) {
  const { values: valuesIn, now, access, reach, recorded } = newRow
  const caller = authorOf(request)
  let attempted: Values | undefined
  const write = writeUnit(served, access, async () => attempted)
  return idempotentWrite(request, reply, write, async (tx) => {
    // Copied, because hooks add values to it, and the unit may run again after a deadlock.
    const values = { ...(await valuesIn(tx)) }
    attempted = values
    const actor = auditActor(request)
    const withFiles = (insert: Insert) => insertWithFiles(served, request, { tx, now }, insert)
    const row = await asUnit(served.code, tx, { caller, now }, (by) =>
      createInside(served, tx, { values, recorded, actor, access, reach, withFiles }, by),
    )
    const location = `${served.prefix}${served.declaration.path}/${row.id}`
    return { status: 201, headers: { location }, body: served.serialize(row, request) }
  })
}

/**
 * Handles PUT: replaces the whole resource. Absent fields get their default or, without one, lose their value; only the
 * fields that `keptFields` returns keep theirs.
 */
export async function replace(served: Served, request: BodyRequest): Promise<WrittenRow> {
  const precondition = preconditionOf(request, served.requireIfMatch)
  const { declaration } = served
  const body = settable(declaration, request.body)
  const kept = keptFields(declaration, callerOf(request), request.params.id).filter((field) => !(field in body))
  const values = bodyValues(served, body)
  const isRowNeeded = declaration.rules.length > 0 && kept.length > 0
  const isCompared = declaration.writers !== undefined || declaration.immutable.some((field) => field in body)
  const files = fileChange(served, request)
  if (!isRowNeeded && !isCompared && !files) {
    checkRules(declaration, values)
    for (const field of kept) delete values[field]
    const access = served.accessOf && (await served.accessOf(callerOf(request)))
    return change(served, request, values, { precondition, access })
  }
  const valuesFrom = (row: Row) => ({
    ...values,
    ...Object.fromEntries(kept.map((field) => [field, row[field]])),
    ...files?.values(row),
  })
  return revise(served, request, precondition, valuesFrom, files?.place)
}

/**
 * Handles PATCH with a merge patch (RFC 7396): reads, merges, validates and writes. The result equals a PUT of the
 * merged resource: a field removed by null gets its default again.
 */
export async function patch(served: Served, request: BodyRequest): Promise<WrittenRow> {
  const precondition = preconditionOf(request, served.requireIfMatch)
  // Must run before the body is copied, because `readJson` tracks long numbers by the object that contains them.
  served.readDecimals?.(request.body)
  const body = settable(served.declaration, request.body)
  rejectInvalidMembers(served, body)
  const files = fileChange(served, request)
  const valuesFrom = (row: Row) => ({
    ...validated(served, applyMergePatch(row, body) as Record<string, unknown>),
    ...files?.values(row),
  })
  return revise(served, request, precondition, valuesFrom, files?.place)
}

/**
 * Deletes the resource if it meets the precondition. Throws 404, 403 or 412 otherwise, and 409 if the resource is
 * locked or in use.
 */
export async function removeRow(served: Served, request: RowRequest): Promise<void> {
  const { id } = request.params
  const sent = preconditionOf(request, served.requireIfMatch)
  const now = new Date(served.now()).toISOString()
  const caller = authorOf(request)
  const access = served.accessOf && (await served.accessOf(caller))
  const precondition = rowPrecondition({ precondition: sent, access })
  const reach = served.referrers && (await served.referrers(caller))
  const removed = await served.db.write((tx) =>
    asUnit(served.code, tx, { caller, now }, (by) => deleteRow(served, tx, { id, precondition, reach }, by)),
  )
  if (!removed) await throwUnmatched(served, id, access)
}
