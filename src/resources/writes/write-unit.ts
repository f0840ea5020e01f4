import { sql } from 'kysely'
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
 * Returns a version of `db.write` that throws 409 DUPLICATE_RESOURCE for a duplicate unique value. If the access rules
 * do not let the caller store the attempted row, it throws 403 instead, because the caller may not see the duplicate.
 */
export function writeUnit(
  served: Served,
  access: RowAccess | undefined,
  attempted: () => Promise<Row | undefined>,
): InTransaction<Queryable> {
  const { db, declaration } = served
  if (declaration.unique.length + declaration.tuples.length === 0) return db.write
  return (work) => db.write(work).catch((error) => throwDuplicate(served, access, attempted, error))
}

/**
 * If the error reports a duplicate unique value, throws the same problem as `writeUnit`; otherwise rethrows it. Reads
 * related rows with `read`, by default outside the transaction.
 */
export async function throwDuplicate(
  served: Served,
  access: RowAccess | undefined,
  attempted: () => Promise<Row | undefined>,
  error: unknown,
  read: Queryable = served.db.read,
): Promise<never> {
  const { db, declaration } = served
  if (!db.engine.isDuplicate(error)) throw error
  const row = access && (await attempted())
  if (row && !(await isStorable(served, access, row, read))) throw notWritable(declaration, 'store')
  throw duplicateProblem(db.engine, error, declaration)
}

interface Attempted {
  access: RowAccess | undefined
  attempted: () => Row | undefined
}

/**
 * Runs a write within a transaction and throws the same problems as `writeUnit`. A savepoint keeps the transaction
 * usable on PostgreSQL, so that it can check whether the caller may see the duplicate.
 */
export async function withDuplicates<T>(
  served: Served,
  tx: Queryable,
  { access, attempted }: Attempted,
  run: () => Promise<T>,
): Promise<T> {
  const { db, declaration } = served
  const judge = (error: unknown) => throwDuplicate(served, access, async () => attempted(), error, tx)
  if (declaration.unique.length + declaration.tuples.length === 0) return run()
  if (access === undefined || db.engine.name === 'sqlite') return run().catch(judge)
  await sql`savepoint write_inside`.execute(tx)
  try {
    const result = await run()
    await sql`release savepoint write_inside`.execute(tx)
    return result
  } catch (error) {
    if (!db.engine.isDuplicate(error)) throw error
    await sql`rollback to savepoint write_inside`.execute(tx)
    return judge(error)
  }
}

/** Returns true if the access rules would let the caller store this row with its references. */
async function isStorable(
  { declaration, related }: Served,
  { write }: RowAccess,
  row: Row,
  read: Queryable,
): Promise<boolean> {
  const { view } = declaration
  const own = view?.collection ?? declaration
  if (own.access === undefined) return true
  const facts = await rowFacts(own, related?.all ?? [own])(read, view ? view.toOwn(row) : row)
  return rowPasses(write, facts, own.access)
}
