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
 * Returns `db.write`, with 409 DUPLICATE_RESOURCE for a duplicate of unique values. If the access rules would not let the
 * caller store the row that the write attempted, it is 403 as without the duplicate, which the caller may not see.
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

/** Judges a row that was not stored, with the rows that it refers to as they are now. */
async function isStorable({ db, declaration, related }: Served, { write }: RowAccess, row: Row): Promise<boolean> {
  const { view } = declaration
  const own = view?.collection ?? declaration
  if (own.access === undefined) return true
  const facts = await rowFacts(own, related?.all ?? [own])(db.read, view ? view.toOwn(row) : row)
  return rowPasses(write, facts, own.access)
}
