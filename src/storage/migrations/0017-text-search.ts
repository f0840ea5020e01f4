import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/** What substring search requires of the database (see `storage/text-index`). */
export async function textSearch(db: Kysely<unknown>, { textSearch: needed }: Engine): Promise<void> {
  for (const statement of needed.statements) {
    await sql
      .raw(statement)
      .execute(db)
      .catch((cause) => {
        throw Object.assign(new Error(needed.otherwise, { cause }), { exitCode: 2 })
      })
  }
}
