import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/**
 * Adds the log of changes to rows, which event streams read, and the table of resources whose changes are logged. If
 * the engine can commit transactions in an order other than that of `seq`, committed entries get a `position`, counted
 * in `change_positions`.
 */
export async function rowChanges(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { schema } = db
  const { keyType, commitsInOrder } = engine
  await schema
    .createTable('row_changes')
    .addColumn('seq', commitsInOrder ? 'integer' : 'bigint', engine.identity)
    .addColumn('position', 'bigint')
    .addColumn('tag', 'text', (c) => c.notNull())
    .addColumn('changes', 'text', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .execute()
  await schema
    .createTable('row_watches')
    .addColumn('noun', keyType as never, (c) => c.primaryKey())
    .addColumn('since', 'bigint', (c) => c.notNull())
    .addColumn('until', 'text', (c) => c.notNull())
    .execute()
  if (commitsInOrder) return
  await schema
    .createTable('change_positions')
    .addColumn('last', 'bigint', (c) => c.notNull())
    .execute()
  await sql`insert into change_positions (last) values (0)`.execute(db)
  await sql`create unique index row_changes_position on row_changes (position)`.execute(db)
  await sql`create index row_changes_unnumbered on row_changes (seq) where position is null`.execute(db)
}
