import type { Database } from './database.ts'
import { type MigrateOptions, migrate } from './migrate.ts'
import { type Progress, runStep } from './resource-tables/batches.ts'
import type { DoneStep } from './resource-tables/data-steps.ts'
import { labelOf } from './resource-tables/history.ts'
import type { Prepared, ThoroughOptions } from './resource-tables/migration-unit.ts'

export interface ThoroughMigration extends MigrateOptions, ThoroughOptions {
  /** Keeps every process from serving the database until the returned function is called; throws if one serves it. */
  exclude: () => Promise<() => unknown>
  onProgress?: (progress: Progress) => void
}

/**
 * Migrates as every start does, and also makes the changes that need every row or drop data, while no process serves the
 * database. Resumes an interrupted run. Returns the names of the migrations that ran, followed by statements and comments;
 * with `plan`, those that would. Throws `TableMismatch` if the tables cannot be made to match their declarations.
 */
export async function migrateThoroughly(db: Database, options: ThoroughMigration): Promise<string[]> {
  const { tables = [], version, plan = false, now = Date.now, exclude, onProgress = () => {} } = options
  if (plan) return (await rehearse(db, options)).lines
  if (!(await rehearse(db, options, true)).isExclusive) return migrate(db, options)
  const release = await exclude()
  try {
    // Creates the table of progress.
    await migrate(db, { now })
    // After `exclude`, since processes may have served until then; and whole, so that no mismatch is found after the work.
    const { steps } = await rehearse(db, options)
    const label = labelOf(tables, version)
    const done: DoneStep[] = []
    for (const step of steps) done.push(await runStep(db, step, { label, now, onProgress }))
    return await migrate(db, { ...options, thorough: { ...options, done } })
  } finally {
    await release()
  }
}

/** Runs everything but the batches and rolls it back; with `isPartial`, only what needs every row or drops data. */
async function rehearse(db: Database, options: ThoroughMigration, isPartial = false) {
  let found: Pick<Prepared, 'isExclusive' | 'steps'> = { isExclusive: false, steps: [] }
  const onPrepared = (prepared: Prepared) => {
    found = prepared
  }
  const lines = await migrate(db, { ...options, plan: true, thorough: { ...options, isPartial, onPrepared } })
  return { ...found, lines }
}
