import type { FastifyReply, FastifyRequest } from 'fastify'
import { authorOf, callerOf } from '../../http/policies/authenticate.ts'
import { checkPostPreconditions } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import { idempotentWrite } from '../../idempotency/idempotent-write.ts'
import { type KeptSelection, takeDeleted } from '../../storage/deleted-rows.ts'
import { iso, type RowId } from '../../storage/ids.ts'
import { existsLocked } from '../../storage/rows/related-rows.ts'
import { passesAll } from '../../storage/rows/row-test.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { releaseFiles, restoreFiles } from '../../storage/stored-files.ts'
import { validated } from '../constraints/body-values.ts'
import { checkRules } from '../constraints/rules.ts'
import type { Served } from '../declaration.ts'
import type { RowRequest, Values } from '../writes/change.ts'
import { writeUnit } from '../writes/write-unit.ts'
import { addRow } from '../writes/writes.ts'
import { keptColumns, keptRowReader } from './kept-rows.ts'

/**
 * Returns the function that selects the deleted rows that a caller can see and restore: those that its access rules
 * would let it read and store.
 */
export function keptSelector({ declaration, accessOf, now }: Served) {
  const columns = keptColumns(declaration.view?.collection ?? declaration)
  const { table } = declaration
  return async (request: FastifyRequest): Promise<KeptSelection> => {
    const access = accessOf && (await accessOf(callerOf(request)))
    return { table, columns, test: access?.write ?? passesAll, now: iso(now()) }
  }
}

const notKept = ({ declaration }: Served, id: RowId) =>
  new Problem('RESOURCE_NOT_FOUND', `There is no deleted ${declaration.noun} ${id}`)

/**
 * Returns the handler of POST …/restore, which inserts a deleted row again: with its id, its creator and the next
 * revision. The row must meet everything that a new row must meet.
 */
export function restorer(served: Served) {
  const { declaration, db, rows, prefix } = served
  const [selectionFor, read] = [keptSelector(served), keptRowReader(declaration)]
  return async (request: RowRequest, reply: FastifyReply): Promise<object> => {
    checkPostPreconditions(request)
    const { id } = request.params
    const caller = authorOf(request)
    const [kept, access, reach] = await Promise.all([
      selectionFor(request),
      served.accessOf?.(caller),
      served.references?.reachOf(caller),
    ])
    let attempted: Values | undefined
    const write = writeUnit(served, access, async () => attempted)
    return idempotentWrite(request, reply, write, async (tx) => {
      const deleted = await takeDeleted(tx, db.engine, kept, id)
      if (deleted === undefined) throw notKept(served, id)
      const before = read(deleted.content)
      const values = storable(served, before)
      attempted = values
      const { table, noun } = declaration
      // Only SQLite reuses ids, in tables that the service did not create.
      if (await existsLocked(tx, db.engine, { table, id, test: passesAll }))
        throw new Problem('DUPLICATE_RESOURCE', `There is a new ${noun} ${id}`)
      const row = await addRow(served, tx, values, { caller, now: kept.now, access, reach }, () =>
        rows.restore(tx, { ...before, ...values }, kept.now),
      )
      if (declaration.files.length > 0) await restoreFiles(tx, { table, id })
      const headers = { location: `${prefix}${declaration.path}/${id}` }
      return { status: 201, headers, body: served.serialize(row, request) }
    })
  }
}

/** Returns the values of a deleted row to store. Throws 422 if the row breaks the rules for bodies, which may have changed. */
function storable(served: Served, row: Row): Values {
  const values = validValues(served, row)
  checkRules(served.declaration, values)
  if (served.declaration.access) values.createdBy = row.createdBy
  return values
}

function validValues(served: Served, row: Row): Values {
  try {
    return validated(served, row)
  } catch (error) {
    // A missing field or a wrong type would be a 400, but the request has no body.
    if (!(error instanceof Problem)) throw error
    throw new Problem('VALIDATION_ERROR', 'The deleted resource no longer satisfies the rules for its fields', {
      ...(error.errors && { errors: error.errors }),
      cause: error,
    })
  }
}

/** Returns the handler of the DELETE of a deleted row, which makes its deletion final. */
export function eraser(served: Served) {
  const selectionFor = keptSelector(served)
  return async (request: RowRequest, reply: FastifyReply): Promise<FastifyReply> => {
    // As for a POST, because a deleted row has no entity tag.
    checkPostPreconditions(request)
    const { id } = request.params
    const kept = await selectionFor(request)
    const { db, declaration, now } = served
    const erased = await db.write(async (tx) => {
      const taken = await takeDeleted(tx, db.engine, kept, id)
      if (taken && declaration.files.length > 0)
        await releaseFiles(tx, { table: declaration.table, ids: [id], state: 'kept' }, now())
      return taken
    })
    if (erased === undefined) throw notKept(served, id)
    return reply.code(204).send()
  }
}
