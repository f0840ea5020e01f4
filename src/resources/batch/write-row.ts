import type { FastifyRequest } from 'fastify'
import { applyMergePatch } from '../../http/merge-patch.ts'
import { auditActor, callerOf } from '../../http/policies/authenticate.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { Reach, RowAccess, RuleCaller } from '../access/rules.ts'
import { bodyValues, validated } from '../constraints/body-values.ts'
import { keptFields } from '../constraints/kept-fields.ts'
import { checkRules } from '../constraints/rules.ts'
import { checkCreation } from '../constraints/writers.ts'
import type { Served } from '../declaration.ts'
import type { WriteBy } from '../writes/hooks.ts'
import { createInside, removeInside, reviseInside } from '../writes/inside.ts'
import type { Values } from '../writes/row-writes.ts'
import type { ItemWrite } from './items.ts'

/** A caller's rights in a collection, evaluated before the transaction. */
export interface Rights {
  access: RowAccess | undefined
  /**
   * `reach`: the rows that the caller can refer to. `referrers`: the rows that prevent a deletion and that the caller
   * can read.
   */
  reach: Reach | undefined
  referrers: Reach | undefined
  /** The caller, as passed to the functions of `set` and `defaults`. */
  creating: RuleCaller<never> | undefined
}

interface RowToWrite {
  write: ItemWrite
  rights: Rights
  id: RowId
  body: Values
  /** Called with the values of the row before they are stored. */
  attempt: (values: Values) => void
}

/** Creates, replaces, patches or deletes one row, with the same checks and side effects as a single request. */
export async function writeRow(
  request: FastifyRequest,
  tx: Queryable,
  row: RowToWrite,
  by: WriteBy,
): Promise<Row | undefined> {
  const { write, rights, id, body, attempt } = row
  const { method, precondition, target } = write
  const { served } = target
  const { access, reach } = rights
  const actor = auditActor(request)
  if (method === 'DELETE') {
    await removeInside(served, tx, { id, precondition, access, reach: rights.referrers }, by)
    return undefined
  }
  if (method === 'POST') {
    const recorded = checkCreation(served.declaration.writers, body, callerOf(request))
    const values = await createdValues(served, tx, body, rights.creating)
    attempt(values)
    return createInside(served, tx, { values, recorded, actor, access, reach }, by)
  }
  const replaced = method === 'PUT' ? replacing(served, request, id, body) : patching(served, body)
  const valuesFrom = (before: Row) => {
    const values = replaced(before)
    attempt({ ...before, ...values })
    return values
  }
  return reviseInside(served, tx, { id, valuesFrom, precondition, actor, access, reach }, by)
}

/** Returns the values of a new row, including those from `set` and `defaults`. */
async function createdValues(served: Served, tx: Queryable, body: Values, by: RuleCaller<never> | undefined) {
  const { created, createdIn } = served.creator
  const values = bodyValues(served, createdIn ? await createdIn(tx, body, by) : created(body, by))
  checkRules(served.declaration, values)
  return values
}

/**
 * Returns the values of a PUT: those in the body, and the stored values of omitted fields that a PUT leaves unchanged.
 */
function replacing(served: Served, request: FastifyRequest, id: RowId, body: Values): (row: Row) => Values {
  const kept = keptFields(served.declaration, callerOf(request), id).filter((field) => !(field in body))
  const values = bodyValues(served, body)
  return (row) => ({ ...values, ...Object.fromEntries(kept.map((field) => [field, row[field]])) })
}

/** Returns the function that computes a row's values after a PATCH. */
const patching =
  (served: Served, body: Values) =>
  (row: Row): Values =>
    validated(served, applyMergePatch(row, body) as Values)
