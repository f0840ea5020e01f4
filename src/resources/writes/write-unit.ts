import type { InTransaction } from '../../idempotency/idempotent-write.ts'
import type { Queryable } from '../../storage/database.ts'
import { notWritable } from '../access/enforce.ts'
import { rowFacts } from '../access/row-facts.ts'
import type { RowAccess } from '../access/rules.ts'
import { rowPasses } from '../conditions/conditions.ts'
import { duplicateProblem } from '../constraints/unique.ts'
import type { Served } from '../declaration.ts'

type Row = Readonly<Record<string, unknown>>

/**
 * Returns `db.write`, which also throws 409 DUPLICATE_RESOURCE for a duplicate of unique values. If the access rules do
 * not let the caller store the attempted row, it throws 403 instead, because the caller may not see the duplicate.
 */
export function writeUnit(
  served: Served,
  access: RowAccess | undefined,
  attempted: () => Promise<Row | undefined>,
): InTransaction<Queryable> {
  const { db, declaration } = served
  if (declaration.unique.length + declaration.tuples.length === 0) return db.write
  return (work) =>
    db.write(work).catch(async (error) => {
      if (!db.engine.isDuplicate(error)) throw error
      const row = access && (await attempted())
      if (row && !(await isStorable(served, access, row))) throw notWritable(declaration, 'store')
      throw duplicateProblem(db.engine, error, declaration)
    })
}

/** Returns whether the caller could store a row that was not stored, given the current rows that it refers to. */
async function isStorable({ db, declaration, related }: Served, { write }: RowAccess, row: Row): Promise<boolean> {
  const { view } = declaration
  const own = view?.collection ?? declaration
  if (own.access === undefined) return true
  const facts = await rowFacts(own, related?.all ?? [own])(db.read, view ? view.toOwn(row) : row)
  return rowPasses(write, facts, own.access)
}
