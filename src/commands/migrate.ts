import { type Config, databaseUrlOf } from '../config.ts'
import { migrate } from '../db/migrate.ts'
import { openDatabase } from '../db/open.ts'

/** Brings the schema up to date and says what was done. */
export async function runMigrations(config: Config): Promise<void> {
  const db = await openDatabase(databaseUrlOf(config))
  try {
    const done = await migrate(db)
    process.stdout.write(done.length > 0 ? `Ran ${done.join(', ')}\n` : 'The schema is up to date\n')
  } finally {
    await db.close()
  }
}
