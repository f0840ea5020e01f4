import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/** Sets up what substring search needs (see `storage/text-index`); exit code 2 if that fails. */
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
