import type { Config } from '../config/config.ts'
import { databaseUrlOf } from '../config/storage.ts'
import type { Definition } from '../definition/service.ts'
import type { Database } from '../storage/database.ts'
import { excludeNodes } from '../storage/exclude-nodes.ts'
import { migrateThoroughly } from '../storage/migrate-thoroughly.ts'
import { openDatabase } from '../storage/open.ts'
import type { StepProgress } from '../storage/resource-tables/batches.ts'
import { readSchemaChanges } from '../storage/resource-tables/history.ts'
import { rowCount } from '../storage/resource-tables/mismatch.ts'
import { refuseDamage } from '../storage/sqlite/damage.ts'
import { checkAddress } from '../stores.ts'

export interface MigrateCommand {
  plan?: boolean
  history?: boolean
  tidy?: boolean
  allowDataLoss?: boolean
}

/**
 * The exit code of `--plan` if there are pending changes. It is 0 if there are none, and 2 if the definition is
 * rejected.
 */
const somethingToDo = 3

/**
 * Migrates the schema and prints the changes. With `plan`, rolls everything back, and sets the exit code to 3 if there
 * are pending changes. With `history`, only prints earlier changes. Throws a `TableMismatch`, whose message suggests a
 * fix, if a table contradicts its definition.
 */
export async function runMigrations(config: Config, definition: Definition, options: MigrateCommand): Promise<void> {
  const url = databaseUrlOf(config.storage)
  await checkAddress(config)
  refuseDamage(url)
  const db = await openDatabase(url)
  try {
    if (options.history) return await printHistory(db)
    const { plan = false, tidy = false, allowDataLoss = false } = options
    const steps = await migrateThoroughly(db, {
      ...{ tables: definition.tables, version: definition.info.version, plan, tidy, allowDataLoss },
      exclude: () => excludeNodes(url, Date.now),
      onProgress: progressPrinter(),
    })
    process.stdout.write(summary(steps, plan))
    if (plan && steps.length > 0) process.exitCode = somethingToDo
  } finally {
    await db.close()
  }
}

const progressEveryMs = 1_000

/** Returns a function that prints how many rows have been migrated, at most once a second. */
function progressPrinter(): (progress: StepProgress) => void {
  let printed = Number.NEGATIVE_INFINITY
  return ({ table, column, rows, total }) => {
    if (performance.now() - printed < progressEveryMs) return
    printed = performance.now()
    process.stderr.write(`plinth: ${table}.${column}: ${rows} of ${rowCount(total)}\n`)
  }
}

async function printHistory(db: Database): Promise<void> {
  const changes = await readSchemaChanges(db)
  const lines = changes.map(({ startedAt, finishedAt, version, tableName, rows, change }) => {
    const state = finishedAt === null ? '  (unfinished)' : ''
    return `${startedAt}  ${version}  ${tableName}  ${rowCount(Number(rows))}  ${change}${state}\n`
  })
  process.stdout.write(lines.length > 0 ? lines.join('') : 'No table has changed\n')
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
