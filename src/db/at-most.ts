import { type RawBuilder, sql } from 'kysely'

/**
 * The number of a LIMIT. SQLite plans by a bare parameter there, and so prepares the statement anew whenever it is bound,
 * which takes longer than to read a page; of a sum it does not know.
 */
export const atMost = (rows: number): RawBuilder<number> => sql<number>`${rows} + 0`
