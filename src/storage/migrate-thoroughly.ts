import type { Database } from './database.ts'
import { type MigrationOptions, migrate } from './migrate.ts'
import { runStep, type StepProgress } from './resource-tables/batches.ts'
import type { DoneStep } from './resource-tables/data-steps.ts'
import { labelOf } from './resource-tables/history.ts'
import type { PreparedMigration, ThoroughOptions } from './resource-tables/migration-unit.ts'

export interface ThoroughMigration extends MigrationOptions, ThoroughOptions {
  /**
   * Prevents the service's processes from using the database until the returned function is called; throws if one is
   * using it now.
   */
  exclude: () => Promise<() => unknown>
  onProgress?: (progress: StepProgress) => void
}

/**
 * Runs the startup migrations, and the changes that need exclusive access: computes new values in existing rows and, if
 * the options allow it, drops or renames columns and drops tables. Excludes the service's processes only for such
 * changes; resumes an interrupted run. Returns the names of the migrations, then statements and comments; with `plan`,
 * changes nothing. Throws `TableMismatch` if a table cannot match its declaration.
 */
export async function migrateThoroughly(db: Database, options: ThoroughMigration): Promise<string[]> {
  const { tables = [], version, plan = false, now = Date.now, exclude, onProgress = () => {} } = options
  if (plan) return (await rehearse(db, options)).lines
  if (!(await rehearse(db, options, true)).isExclusive) return migrate(db, options)
  const release = await exclude()
  try {
    // Creates the table that stores the progress of the steps.
    await migrate(db, { now })
    // Rehearse again, because other processes may have changed rows before they were excluded. This finds a mismatch
    // before the work starts.
    const { steps } = await rehearse(db, options)
    const label = labelOf(tables, version)
    const done: DoneStep[] = []
    for (const step of steps) done.push(await runStep(db, step, { label, now, onProgress }))
    return await migrate(db, { ...options, thorough: { ...options, done } })
  } finally {
    await release()
  }
}

/**
 * Makes all changes except the batches, then rolls them back. With `isPartial`, leaves out the table changes that every
 * startup makes.
 */
async function rehearse(db: Database, options: ThoroughMigration, isPartial = false) {
  let found: Pick<PreparedMigration, 'isExclusive' | 'steps'> = { isExclusive: false, steps: [] }
  const onPrepared = (prepared: PreparedMigration) => {
    found = prepared
  }
  const lines = await migrate(db, { ...options, plan: true, thorough: { ...options, isPartial, onPrepared } })
  return { ...found, lines }
}
