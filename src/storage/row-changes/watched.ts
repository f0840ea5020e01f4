import { type RawBuilder, sql } from 'kysely'
import type { ChangeTracker, Database } from '../database.ts'

/**
 * Returns an SQL expression that is true if the changes to a resource are logged. As part of a larger statement, it
 * costs an index lookup but no additional round trip.
 */
export const isWatched = (noun: string): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from row_watches where row_watches.noun = ${sql.lit(noun)})`

/**
 * Returns the function that checks, inside a transaction, whether the changes to a resource are logged. It queries the
 * table of watches only after that table has changed. Only for databases with change numbers (`Database.changes`).
 */
export function watchCheck(db: Database, changes: ChangeTracker, noun: string): () => boolean {
  const find = db.prepare(db.read.selectFrom('rowWatches').select('noun').where('noun', '=', noun))
  let asOf = Number.NEGATIVE_INFINITY
  let isWatched = false
  return () => {
    const changed = changes.lastOf('row_watches')
    if (changed <= asOf) return isWatched
    const last = changes.last()
    // Another thread may have just committed a watch that this read does not see yet. An unneeded log entry does no
    // harm.
    if (changed > last) return true
    const found = find.all([noun])
    if (found instanceof Promise) throw new Error('Reads of a database with change numbers must be synchronous')
    asOf = last
    isWatched = found.length > 0
    return isWatched
  }
}
