import type { Config } from '../config/config.ts'
import { databaseUrlOf } from '../config/storage.ts'
import type { Definition } from '../definition/service.ts'
import { migrate } from '../storage/migrate.ts'
import { openDatabase } from '../storage/open.ts'

/**
 * Migrates the schema and prints the changes; with `plan`, rolls everything back. If a table contradicts its definition,
 * throws a `TableMismatch`; its message explains what to do.
 */
export async function runMigrations(config: Config, { tables }: Definition, { plan = false }): Promise<void> {
  const db = await openDatabase(databaseUrlOf(config.storage))
  try {
    const steps = await migrate(db, { tables, plan })
    process.stdout.write(summary(steps, plan))
  } finally {
    await db.close()
  }
}

const isStatement = (line: string) => !/^\d{4}-/.test(line)

function summary(steps: string[], plan: boolean): string {
  if (steps.length === 0) return 'The schema is up to date\n'
  const migrations = steps.filter((line) => !isStatement(line))
  const ran = migrations.length > 0 ? `${plan ? 'Would run' : 'Ran'} ${migrations.join(', ')}\n` : ''
  return (
    ran +
    steps
      .filter(isStatement)
      .map((line) => (line.startsWith('--') ? `${line}\n` : `${line};\n`))
      .join('')
  )
}
