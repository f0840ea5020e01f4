import { meets, type Precondition } from '../../http/policies/conditional.ts'
import { Problem, preconditionFailed } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { notWritable } from '../access/enforce.ts'
import type { Reach, RowAccess } from '../access/rules.ts'
import { checkImmutable } from '../constraints/kept-fields.ts'
import { checkRules } from '../constraints/rules.ts'
import { checkChange } from '../constraints/writers.ts'
import type { Served } from '../declaration.ts'
import { idTypes } from '../id-types.ts'
import { notFound, rowPrecondition } from './change.ts'
import type { RecordedChange } from './guard.ts'
import type { WriteBy } from './hooks.ts'
import { addRow, changeRow, deleteRow, type Insert, type Values } from './row-writes.ts'

/**
 * The rows of a collection that a caller can read and store (`access`), and the rows that its references can point to.
 * Undefined means all rows.
 */
interface Rights {
  access: RowAccess | undefined
  reach: Reach | undefined
}

type Actor = RecordedChange['actor']

/**
 * Reads a row within a transaction. Throws 404 if the caller cannot read the row, and 403 if the caller can only read
 * it.
 */
export async function writableInside(
  served: Served,
  tx: Queryable,
  id: RowId,
  access: RowAccess | undefined,
): Promise<Row> {
  const { rows, declaration } = served
  const row = await rows.readIn(tx, id, { precondition: access ? { passes: access.read } : {} })
  if (row === undefined) throw notFound(served, id)
  if (access && !(await rows.passes(tx, id, access.write))) throw notWritable(declaration, 'change')
  return row
}

/** A new row, with the fields to record (`Writers.recorded`). */
interface NewRow extends Rights {
  values: Values
  recorded: readonly string[]
  actor: Actor
  /** Wraps the insertion so that it also assigns the files of a form to the row. */
  withFiles?: (insert: Insert) => Insert
}

/** Inserts a row within a transaction, with the caller's rights. */
export async function createInside(served: Served, tx: Queryable, row: NewRow, by: WriteBy): Promise<Row> {
  const { values, recorded, actor, access, reach, withFiles = (insert) => insert } = row
  const { declaration, rows, guard } = served
  if (access) values.createdBy = access.createdBy
  const id = idTypes[declaration.ids].assign(served.newUuid)
  const insert = withFiles((final) => rows.insert(tx, id === undefined ? final : { ...final, id }, by.now))
  const added = await addRow(served, tx, values, { ...by, access, reach }, insert)
  const about = { id: added.id, fields: recorded, values, caller: by.caller, actor }
  if (recorded.length > 0) await guard?.record?.(tx, about)
  return added
}

interface Revision extends Rights {
  id: RowId
  /** Returns the values to store; may throw a `Problem`. */
  valuesFrom: (row: Row) => Values
  precondition: Precondition
  actor: Actor
}

const maxAttempts = 10

/**
 * Changes a row within a transaction, with the caller's rights, to values computed from its current values. Throws the
 * problems of `revise`, in the same order. Starts again if another transaction has changed the row since it was read.
 */
export async function reviseInside(served: Served, tx: Queryable, revision: Revision, by: WriteBy): Promise<Row> {
  const { declaration, guard } = served
  const { id, valuesFrom, precondition, access, reach, actor } = revision
  const { caller } = by
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const row = await writableInside(served, tx, id, access)
    const values = valuesFrom(row)
    checkImmutable(declaration.immutable, row, values)
    const recorded = checkChange(declaration.writers, row, values, { caller, id })
    checkRules(declaration, values)
    const isMet = meets(row, precondition)
    // Authorization comes before preconditions (RFC 9110 §13.2.1), so a guard still runs, with a precondition that no
    // row meets.
    if (!isMet && !guard) throw failed(served, id)
    const unchanged = rowPrecondition({
      precondition: { ...precondition, matches: isMet ? [row.revision] : [] },
      access,
    })
    const changed = await changeRow(served, tx, { id, values, precondition: unchanged, access, reach }, by)
    if (changed) {
      if (recorded.length > 0) await guard?.record?.(tx, { id, fields: recorded, values, caller, actor })
      return changed
    }
    if (!isMet) throw failed(served, id)
  }
  throw new Problem('SERVICE_UNAVAILABLE', 'Other requests keep changing this resource; try again', {
    headers: { 'retry-after': '1' },
  })
}

const failed = ({ declaration }: Served, id: RowId) => preconditionFailed(`The ${declaration.noun} ${id}`)

interface Removal extends Rights {
  id: RowId
  precondition: Precondition
}

/** Deletes a row within a transaction, with the caller's rights. Throws 404, 403 or 412 if there is no such row. */
export async function removeInside(served: Served, tx: Queryable, removal: Removal, by: WriteBy): Promise<void> {
  const { id, precondition, access, reach } = removal
  const deletion = { id, precondition: rowPrecondition({ precondition, access }), reach }
  if (await deleteRow(served, tx, deletion, by)) return
  await writableInside(served, tx, id, access)
  throw failed(served, id)
}
