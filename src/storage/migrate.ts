import { type Kysely, sql } from 'kysely'
import { ConfigError } from '../startup-errors.ts'
import type { Database, Queryable } from './database.ts'
import type { Engine } from './engine.ts'
import { resources } from './migrations/0001-resources.ts'
import { tasks } from './migrations/0002-tasks.ts'
import { auth } from './migrations/0003-auth.ts'
import { webhooks } from './migrations/0004-webhooks.ts'
import { answers } from './migrations/0005-answers.ts'
import { resourceTables } from './migrations/0006-resource-tables.ts'
import { accounts } from './migrations/0007-accounts.ts'
import { administration } from './migrations/0008-administration.ts'
import { reports } from './migrations/0009-reports.ts'
import { webhookOperations } from './migrations/0010-webhook-operations.ts'
import { lanes } from './migrations/0011-lanes.ts'
import { limits } from './migrations/0012-limits.ts'
import { versionCalls } from './migrations/0013-version-calls.ts'
import { deliveryOwners } from './migrations/0014-delivery-owners.ts'
import { sharedSeconds } from './migrations/0015-shared-seconds.ts'
import { boundedReads } from './migrations/0016-bounded-reads.ts'
import { textSearch } from './migrations/0017-text-search.ts'
import { fairSending } from './migrations/0018-fair-sending.ts'
import { access } from './migrations/0019-access.ts'
import { reportExpiry } from './migrations/0020-report-expiry.ts'
import { counters } from './migrations/0021-counters.ts'
import { clientLabels } from './migrations/0022-client-labels.ts'
import { eventsOfRows } from './migrations/0023-events-of-rows.ts'
import { schemaChanges } from './migrations/0024-schema-changes.ts'
import { webhookVersions } from './migrations/0025-webhook-versions.ts'
import { webhookStates } from './migrations/0026-webhook-states.ts'
import { backups } from './migrations/0027-backups.ts'
import { adoptedTables } from './migrations/0028-adopted-tables.ts'
import { traces } from './migrations/0029-traces.ts'
import { uuids } from './migrations/0030-uuids.ts'
import { nodes } from './migrations/0031-nodes.ts'
import { dataKeys } from './migrations/0032-data-keys.ts'
import { auditArchives } from './migrations/0033-audit-archives.ts'
import { traffic } from './migrations/0034-traffic.ts'
import { clientLimits } from './migrations/0035-client-limits.ts'
import { accountLocks } from './migrations/0037-account-locks.ts'
import { backupRequests } from './migrations/0039-backup-requests.ts'
import { deletedRows } from './migrations/0040-deleted-rows.ts'
import { webhookStatistics } from './migrations/0042-webhook-statistics.ts'
import { declaredJobs } from './migrations/0044-declared-jobs.ts'
import { storedFiles } from './migrations/0047-stored-files.ts'
import { rowChanges } from './migrations/0049-row-changes.ts'
import { unusedIndexes } from './migrations/0050-unused-indexes.ts'
import { labelOf } from './resource-tables/history.ts'
import { type PreparedMigration, prepareTables, type ThoroughUnit } from './resource-tables/migration-unit.ts'
import { refuseOtherIds } from './resource-tables/mismatch.ts'
import type { ResourceTable } from './resource-tables/resource-columns.ts'
import { reconcile } from './resource-tables/resource-tables.ts'

type Migration = (db: Kysely<unknown>, engine: Engine) => Promise<void>

/** In execution order; each migration runs once. Never change a released migration; add a new one instead. */
const migrations: [name: string, run: Migration][] = [
  ['0001-resources', resources],
  ['0002-tasks', tasks],
  ['0003-auth', auth],
  ['0004-webhooks', webhooks],
  ['0005-answers', answers],
  ['0006-resource-tables', resourceTables],
  ['0007-accounts', accounts],
  ['0008-administration', administration],
  ['0009-reports', reports],
  ['0010-webhook-operations', webhookOperations],
  ['0011-lanes', lanes],
  ['0012-limits', limits],
  ['0013-version-calls', versionCalls],
  ['0014-delivery-owners', deliveryOwners],
  ['0015-shared-seconds', sharedSeconds],
  ['0016-bounded-reads', boundedReads],
  ['0017-text-search', textSearch],
  ['0018-fair-sending', fairSending],
  ['0019-access', access],
  ['0020-report-expiry', reportExpiry],
  ['0021-counters', counters],
  ['0022-client-labels', clientLabels],
  ['0023-events-of-rows', eventsOfRows],
  ['0024-schema-changes', schemaChanges],
  ['0025-webhook-versions', webhookVersions],
  ['0026-webhook-states', webhookStates],
  ['0027-backups', backups],
  ['0028-adopted-tables', adoptedTables],
  ['0029-traces', traces],
  ['0030-uuids', uuids],
  ['0031-nodes', nodes],
  ['0032-data-keys', dataKeys],
  ['0033-audit-archives', auditArchives],
  ['0034-traffic', traffic],
  ['0035-client-limits', clientLimits],
  ['0037-account-locks', accountLocks],
  ['0039-backup-requests', backupRequests],
  ['0040-deleted-rows', deletedRows],
  ['0042-webhook-statistics', webhookStatistics],
  ['0044-declared-jobs', declaredJobs],
  ['0047-stored-files', storedFiles],
  ['0049-row-changes', rowChanges],
  ['0050-unused-indexes', unusedIndexes],
]

/** The names of all migrations in this release. */
export const migrationNames: readonly string[] = migrations.map(([name]) => name)

/** Thrown to roll back the transaction of a dry run. */
class PlanOnly extends Error {}

/** A migration that ran, and its duration. */
export interface Migrated {
  name: string
  ms: number
}

export interface MigrationOptions {
  /** The tables declared by the served definition; missing tables are created. */
  tables?: readonly ResourceTable[]
  /** Dry run: executes everything, then rolls it back. */
  plan?: boolean
  now?: () => number
  /** The version of the definition, for the history. */
  version?: string | undefined
  /** Called for each migration after the commit. */
  onMigrated?: ((migration: Migrated) => void) | undefined
  /**
   * The additional changes of `migrateThoroughly` in the same transaction. With `isPartial`, leaves out the table
   * changes that every startup makes, and rolls everything back.
   */
  thorough?: ThoroughUnit & { isPartial?: boolean; onPrepared?: (prepared: PreparedMigration) => void }
}

/**
 * Migrates the schema to this release in one transaction under a lock. Returns the names of the migrations that ran,
 * followed by the statements executed for declared tables. Throws, and changes nothing, if the database was migrated by
 * a newer release or if an existing table does not match its declaration (`TableMismatch`).
 */
export async function migrate(database: Database, options: MigrationOptions = {}): Promise<string[]> {
  const { tables = [], plan = false, now = Date.now, version, thorough, onMigrated } = options
  const { engine } = database
  const label = labelOf(tables, version)
  let done: string[] = []
  let ran: Migrated[] = []
  const unit = async (tx: Queryable) => {
    for (const statement of database.engine.beforeMigration) await sql.raw(statement).execute(tx)
    const at = new Date(now()).toISOString()
    ran = await runDue(tx, engine)
    await refuseOtherIds(tx, engine, tables)
    const prepared = thorough && (await prepareTables(tx, engine, { ...thorough, tables, label, now: at }))
    if (prepared) thorough?.onPrepared?.(prepared)
    if (thorough?.isPartial) throw new PlanOnly()
    const changed = await reconcile(tx, engine, tables, {
      now: at,
      label,
      ...(prepared && { prepared: prepared.columns }),
    })
    done = [...ran.map(({ name }) => name), ...(prepared?.lines ?? []), ...changed]
    if (plan) throw new PlanOnly()
  }
  try {
    await database.write(unit)
  } catch (error) {
    if (error instanceof PlanOnly) return done
    throw error
  }
  if (onMigrated) ran.forEach(onMigrated)
  return done
}

async function runDue(tx: Queryable, engine: Engine): Promise<Migrated[]> {
  await sql`create table if not exists migrations (name text primary key)`.execute(tx)
  const { rows } = await sql<{ name: string }>`select name from migrations`.execute(tx)
  const done = new Set(rows.map((row) => row.name))
  const known = new Set(migrations.map(([name]) => name))
  const newer = [...done].filter((name) => !known.has(name))
  if (newer.length > 0) {
    throw new ConfigError(
      `The database was made by a newer release: its schema is ${newer.sort().at(-1)}, and this release knows ` +
        `${migrationNames.at(-1)} at most. Start the newer release, or restore a backup made before the upgrade`,
    )
  }
  const due = migrations.filter(([name]) => !done.has(name))
  const ran: Migrated[] = []
  for (const [name, run] of due) {
    const startedAt = performance.now()
    await run(tx as unknown as Kysely<unknown>, engine)
    await sql`insert into migrations (name) values (${name})`.execute(tx)
    ran.push({ name, ms: Math.round(performance.now() - startedAt) })
  }
  if (due.length > 0) await gatherStatistics(tx, engine)
  return ran
}

async function gatherStatistics(tx: Queryable, { statistics: { known, gather } }: Engine): Promise<void> {
  if ((await known.execute(tx)).rows.length === 0) return
  for (const statement of gather) await sql.raw(statement).execute(tx)
}
