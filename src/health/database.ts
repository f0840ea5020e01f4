import { sql } from 'kysely'
import { ageText, count, sizeText } from '../backup/describe.ts'
import { readDatabaseTime, toleratedMs, usableMs } from '../storage/clock.ts'
import { migrationNames } from '../storage/migrate.ts'
import { type Check, type DatabaseContext, type Finding, fail, pass, warn } from './check.ts'

const shownTables = 3
const maxTableBytes = 1024 ** 3
const maxTableShare = 0.5
const ofDeliveries =
  'Find the busiest webhooks; their events and deliveries are kept for 30 days after the last attempt'

/** What to do if one of these tables takes up most of the database. */
const growthCures = new Map([
  ['tasks', 'Shorten `PLINTH_TASK_TTL`'],
  ['auth_records', 'Find clients that request a new token for each call; tokens are kept until they expire'],
  ['answers', 'Find clients that send large bodies with `Idempotency-Key`; responses are stored for 24 hours'],
  ...['events', 'deliveries', 'attempts'].map((table) => [table, ofDeliveries] as const),
])

const listed = (names: readonly string[]) =>
  names.length > 3 ? `${names.slice(0, 3).join(', ')}, …` : names.join(', ')

/** Returns the finding for a clock that differs from the database's clock by `differsMs`. */
export function clockFinding(differsMs: number, detail: string, cure: string): Finding {
  if (differsMs <= toleratedMs) return pass(detail)
  return (differsMs > usableMs ? fail : warn)(detail, cure)
}

/** The id of the check that must pass before stored rows are checked. */
export const migrationsCheckId = 'database.migrations'

/** Checks that work even on a database without tables. */
export const databaseChecks: readonly Check<DatabaseContext>[] = [
  {
    id: migrationsCheckId,
    area: 'database',
    title: 'Migrations',
    rule: 'Warns if migrations are pending; fails if a newer release migrated the database. Checks of stored rows are made only if none is pending',
    run: async ({ db: { read, engine } }) => {
      const { rows: columns } = await engine.columnsOf('migrations').execute(read)
      const { rows } =
        columns.length === 0
          ? { rows: [] }
          : await sql<{ name: string }>`select name from migrations order by name`.execute(read)
      const applied = rows.map(({ name }) => name)
      const newer = applied.filter((name) => !migrationNames.includes(name))
      if (newer.length > 0) {
        const cure = 'Install that release again, or restore a backup that this release made'
        return fail(`A newer release migrated the database: ${listed(newer)}`, cure)
      }
      const pending = migrationNames.filter((name) => !applied.includes(name))
      if (pending.length === 0) return pass(`All ${applied.length} are applied`)
      return warn(`${pending.length} are pending: ${listed(pending)}`, 'Run `plinth migrate`, or start the service')
    },
  },
  {
    id: 'database.clock',
    area: 'database',
    title: 'Clock',
    rule: 'Warns if this clock and the clock of the PostgreSQL server differ by more than 5 seconds, fails above 30',
    run: async ({ db: { read, engine }, now, monotonic }) => {
      if (engine.name === 'sqlite') return null
      const startedMs = monotonic()
      const atMs = await readDatabaseTime({ read, engine })
      // The server's clock is read during the round trip, and this clock after it. If this clock appears to be ahead,
      // the round trip may be the cause, so its duration is subtracted.
      const tripMs = monotonic() - startedMs
      const aheadMs = now() - atMs
      const differsMs = Math.max(0, aheadMs > 0 ? aheadMs - tripMs : -aheadMs)
      const detail = `This clock is ${(differsMs / 1_000).toFixed(1)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the server's`
      const cure = 'Run NTP, such as chrony or systemd-timesyncd, on this machine and on the database server'
      return clockFinding(differsMs, detail, cure)
    },
  },
]

/** Checks of the declared tables, of interrupted migrations and of table sizes. */
export const tableChecks: readonly Check<DatabaseContext>[] = [
  {
    id: 'database.tables',
    area: 'database',
    title: 'Tables',
    rule: 'Warns if a declared resource has no table yet',
    run: async ({ db: { read, engine }, definition: { tables } }) => {
      const missing: string[] = []
      for (const { name } of tables) {
        if ((await engine.columnsOf(name).execute(read)).rows.length === 0) missing.push(name)
      }
      if (missing.length === 0) return pass(`${count(tables.length, 'table')} of ${count(tables.length, 'resource')}`)
      return warn(
        `No table for ${listed(missing)}`,
        'Run `plinth migrate --plan` to see the changes, and `plinth migrate` to make them',
      )
    },
  },
  {
    id: 'database.changes',
    area: 'database',
    title: 'Interrupted migrations',
    rule: 'Warns if `plinth migrate` was interrupted while it changed rows',
    run: async ({ db: { read }, databaseNow }) => {
      const unfinished = read.selectFrom('schemaChanges').selectAll().where('finishedAt', 'is', null)
      const first = await unfinished.orderBy('startedAt').limit(1).executeTakeFirst()
      if (first === undefined) return pass('None')
      const age = ageText((await databaseNow()) - Date.parse(first.startedAt))
      return warn(`${first.tableName}: ${first.change}, started ${age} ago`, 'Run `plinth migrate` again; it resumes')
    },
  },
  {
    id: 'database.size',
    area: 'database',
    title: 'Size of tables',
    rule: 'Warns if a table that only the service writes takes more than half of the database and more than 1 GiB',
    run: async ({ tableSizes }) => {
      const sizes = await tableSizes()
      if (sizes === null) return null
      const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0)
      const largest = sizes.slice(0, shownTables).map(({ table, bytes }) => `${table} ${sizeText(bytes)}`)
      const detail = `${sizeText(total)}; the largest: ${largest.join(', ')}`
      const [first] = sizes
      const cure = first && growthCures.get(first.table)
      if (!cure || first.bytes <= maxTableBytes || first.bytes <= total * maxTableShare) return pass(detail)
      return warn(detail, cure)
    },
  },
]
