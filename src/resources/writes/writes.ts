import type { FastifyReply, FastifyRequest } from 'fastify'
import { applyMergePatch } from '../../http/merge-patch.ts'
import { authorOf, callerOf } from '../../http/policies/authenticate.ts'
import { checkPostPreconditions, preconditionOf } from '../../http/policies/conditional.ts'
import { idempotentWrite, type WriteResponse } from '../../idempotency/idempotent-write.ts'
import type { Queryable } from '../../storage/database.ts'
import type { Changed, Row } from '../../storage/rows/rows.ts'
import { assertStorable } from '../access/enforce.ts'
import type { Reach, RowAccess, RuleCaller } from '../access/rules.ts'
import { bodyValues, rejectInvalidMembers, validated } from '../constraints/body-values.ts'
import { settable } from '../constraints/creation.ts'
import { keptFields } from '../constraints/kept-fields.ts'
import { checkRules } from '../constraints/rules.ts'
import { checkCreation } from '../constraints/writers.ts'
import type { Served } from '../declaration.ts'
import { idTypes } from '../id-types.ts'
import type { Deletion } from '../relations/reference.ts'
import {
  type BodyRequest,
  change,
  guarded,
  type RowRequest,
  readableRow,
  revise,
  rowPrecondition,
  throwUnmatched,
  type Values,
} from './change.ts'
import { writeUnit } from './write-unit.ts'

/**
 * Handles POST: responds with 201, the new resource, its location and its validators. Without access rules and
 * functions, it awaits only the write.
 */
export function create(served: Served, request: BodyRequest, reply: FastifyReply): Promise<object> {
  checkPostPreconditions(request)
  const recorded = checkCreation(served.declaration.writers, request.body, callerOf(request))
  const now = new Date(served.now()).toISOString()
  const { created, createdIn } = served.creator
  const valuesOf = (body: Values) => {
    const values = bodyValues(served, body)
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
 * Returns the check of a stored response to a POST. It throws 404 if the caller can no longer read the row in the
 * response.
 */
export const readableReplay =
  (served: Served) =>
  async (request: FastifyRequest, { body }: WriteResponse): Promise<void> => {
    await readableRow(served, (body as Row).id, await served.accessOf?.(callerOf(request)))
  }

interface NewRow {
  /** Returns the values to store; runs in the transaction, because they may include numbers from counters. */
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
    const values = await valuesIn(tx)
    if (access) values.createdBy = access.createdBy
    attempted = values
    const id = idTypes[served.declaration.ids].assign(served.newUuid)
    const row = await addRow(served, tx, values, { caller, now, access, reach }, () =>
      served.rows.insert(tx, id === undefined ? values : { ...values, id }, now),
    )
    if (recorded.length > 0) await served.guard?.record?.(tx, { id: row.id, fields: recorded, values, request })
    const location = `${served.prefix}${served.declaration.path}/${row.id}`
    return { status: 201, headers: { location }, body: served.serialize(row, request) }
  })
}

/** Who adds a row and when, the rows that the access rules let the caller store, and those it can refer to. */
interface Addition extends Deletion {
  access: RowAccess | undefined
}

/**
 * Inserts a row with everything that belongs to its creation: checks of references, access rules and locks, totals, and
 * the event.
 */
export async function addRow(
  served: Served,
  tx: Queryable,
  values: Values,
  { caller, now, access, reach }: Addition,
  insert: () => Promise<Changed>,
): Promise<Row> {
  const settle = served.totals && (await served.totals.created(tx, values))
  if (served.references) await served.references.created(tx, values, reach)
  Object.assign(values, served.declaration.computed.initial)
  const { row, subscribed } = await insert()
  if (settle) await settle({ caller, now })
  if (access) await assertStorable(served, tx, access, row)
  if (served.lock?.placed) await served.lock.placed(tx, values)
  if (subscribed) await served.announce(tx, 'created', row, caller, now)
  return row
}

/**
 * Handles PUT: replaces the whole resource. Absent fields get their default, or are removed if they have none; fields
 * that this caller cannot see or change keep their values.
 */
export async function replace(served: Served, request: BodyRequest): Promise<Row> {
  const precondition = preconditionOf(request, served.requireIfMatch)
  const { declaration } = served
  const body = settable(declaration, request.body)
  const kept = keptFields(declaration, callerOf(request), request.params.id).filter((field) => !(field in body))
  const values = bodyValues(served, body)
  const isRowNeeded = declaration.rules.length > 0 && kept.length > 0
  const isCompared = declaration.writers !== undefined || declaration.immutable.some((field) => field in body)
  if (!isRowNeeded && !isCompared) {
    checkRules(declaration, values)
    for (const field of kept) delete values[field]
    const access = served.accessOf && (await served.accessOf(callerOf(request)))
    return change(served, request, values, { precondition, access })
  }
  return revise(served, request, precondition, (row) => ({
    ...values,
    ...Object.fromEntries(kept.map((field) => [field, row[field]])),
  }))
}

/**
 * Handles PATCH with a merge patch (RFC 7396): reads, merges, validates and writes. The result equals a PUT of the
 * merged resource: a field removed by null gets its default again.
 */
export async function patch(served: Served, request: BodyRequest): Promise<Row> {
  const precondition = preconditionOf(request, served.requireIfMatch)
  // Before the body is copied, because `readJson` records long numbers by the object that contains them.
  served.readDecimals?.(request.body)
  const body = settable(served.declaration, request.body)
  rejectInvalidMembers(served, body)
  return revise(served, request, precondition, (row) =>
    validated(served, applyMergePatch(row, body) as Record<string, unknown>),
  )
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
  const deletion = { caller, now, reach }
  const removed = await served.db.write(async (tx) => {
    const removal = { id, values: null, caller }
    const deleted = await guarded(served, tx, removal, () => served.remove(tx, id, precondition, deletion))
    if (deleted?.subscribed) await served.announce(tx, 'deleted', deleted.row, caller, now)
    return deleted !== undefined
  })
  if (!removed) await throwUnmatched(served, id, access)
}
