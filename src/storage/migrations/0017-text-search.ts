import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/** Creates the prerequisites of substring search (see `storage/text-index`); on failure, the exit code is 2. */
export async function textSearch(db: Kysely<unknown>, { textSearch: needed }: Engine): Promise<void> {
  for (const statement of needed.statements) {
    await sql
      .raw(statement)
      .execute(db)
      .catch((cause) => {
        throw Object.assign(new Error(needed.errorMessage, { cause }), { exitCode: 2 })
      })
  }
}
