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
import type { RowRequest } from '../writes/change.ts'
import { asUnit } from '../writes/hooks.ts'
import { addRow, type Values } from '../writes/row-writes.ts'
import { writeUnit } from '../writes/write-unit.ts'
import { keptColumns, keptRowReader } from './kept-rows.ts'

/**
 * Returns a function that determines which deleted rows a caller can see, restore and erase: those that the access
 * rules would let the caller write.
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
 * Returns the handler of POST …/restore, which inserts a deleted row again with its id, its creator and the next
 * revision. The row must meet all requirements for new rows.
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
      // Ids are reused only by SQLite, in tables that the service did not create.
      if (await existsLocked(tx, db.engine, { table, id, test: passesAll }))
        throw new Problem('DUPLICATE_RESOURCE', `There is a new ${noun} ${id}`)
      const row = await asUnit(served.code, tx, { caller, now: kept.now }, (by) =>
        addRow(served, tx, values, { ...by, access, reach }, (final) =>
          rows.restore(tx, { ...before, ...final }, kept.now),
        ),
      )
      if (declaration.files.length > 0) await restoreFiles(tx, { table, id })
      const headers = { location: `${prefix}${declaration.path}/${id}` }
      return { status: 201, headers, body: served.serialize(row, request) }
    })
  }
}

/**
 * Returns the values with which to restore a deleted row. Throws 422 if the row breaks the rules for bodies, which may
 * have changed since the deletion.
 */
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
    // In a body, a missing field or a wrong type results in a 400, but this request has no body.
    if (!(error instanceof Problem)) throw error
    throw new Problem('VALIDATION_ERROR', 'The deleted resource no longer satisfies the rules for its fields', {
      ...(error.errors && { errors: error.errors }),
      cause: error,
    })
  }
}

/** Returns the handler of DELETE for a deleted row, which makes the deletion final. */
export function eraser(served: Served) {
  const selectionFor = keptSelector(served)
  return async (request: RowRequest, reply: FastifyReply): Promise<FastifyReply> => {
    // A deleted row has no entity tag, so preconditions are evaluated as for a POST.
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
