import type { Database } from './database.ts'
import { type MigrateOptions, migrate } from './migrate.ts'
import { type Progress, runStep } from './resource-tables/batches.ts'
import type { DoneStep } from './resource-tables/data-steps.ts'
import { labelOf } from './resource-tables/history.ts'
import type { Prepared, ThoroughOptions } from './resource-tables/migration-unit.ts'

export interface ThoroughMigration extends MigrateOptions, ThoroughOptions {
  /**
   * Prevents the service's processes from using the database until the returned function is called; throws if one is
   * using it now.
   */
  exclude: () => Promise<() => unknown>
  onProgress?: (progress: Progress) => void
}

/**
 * Makes the changes that every start makes. While no process of the service uses the database, also makes the changes
 * that need every row or drop data. Resumes an interrupted run. Returns the names of the migrations that ran, followed by
 * statements and comments; with `plan`, changes nothing and returns those that would run. Throws `TableMismatch` if the
 * tables cannot be made to match their declarations.
 */
export async function migrateThoroughly(db: Database, options: ThoroughMigration): Promise<string[]> {
  const { tables = [], version, plan = false, now = Date.now, exclude, onProgress = () => {} } = options
  if (plan) return (await rehearse(db, options)).lines
  if (!(await rehearse(db, options, true)).isExclusive) return migrate(db, options)
  const release = await exclude()
  try {
    // Creates the table that stores the progress of the steps.
    await migrate(db, { now })
    // Rehearsed again, because other processes may have served until `exclude` returned. This rehearsal is complete, so
    // that a mismatch is found before the work starts, not after it.
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
 * Runs everything except the batches, then rolls it back. With `isPartial`, runs only the changes that need every row
 * or drop data.
 */
async function rehearse(db: Database, options: ThoroughMigration, isPartial = false) {
  let found: Pick<Prepared, 'isExclusive' | 'steps'> = { isExclusive: false, steps: [] }
  const onPrepared = (prepared: Prepared) => {
    found = prepared
  }
  const lines = await migrate(db, { ...options, plan: true, thorough: { ...options, isPartial, onPrepared } })
  return { ...found, lines }
}
