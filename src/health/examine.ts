import { existsSync } from 'node:fs'
import { databaseUrlOf } from '../config/storage.ts'
import { readDatabaseTime } from '../storage/clock.ts'
import { sqlitePath } from '../storage/sqlite/path.ts'
import { tableSizes } from '../storage/table-sizes.ts'
import { auditChecks } from './audit.ts'
import {
  type Area,
  byArea,
  type Check,
  type DatabaseContext,
  type Finding,
  fail,
  type HealthContext,
  pass,
  type Status,
  warn,
  worst,
} from './check.ts'
import { databaseChecks, migrationsCheckId, tableChecks } from './database.ts'
import { fileChecks } from './files.ts'
import { keyChecks } from './keys.ts'
import { nodeChecks } from './nodes.ts'
import { postgresChecks } from './postgres.ts'
import { runtimeChecks } from './runtime.ts'
import { settingsChecks } from './settings.ts'
import { sqliteChecks } from './sqlite.ts'
import { tlsChecks } from './tls.ts'
import { workChecks } from './work.ts'

/** The outcome of one check. */
export interface CheckResult extends Finding {
  id: string
  area: Area
  title: string
}

/** The outcome of all checks that apply; `status` is the worst of their statuses. */
export interface HealthReport {
  status: Status
  checkedAt: string
  checks: CheckResult[]
}

export interface ExamineOptions extends HealthContext, Pick<DatabaseContext, 'readSealer'> {
  /** Opens the database; rejects if it does not respond. */
  openDatabase: () => Promise<DatabaseContext['db'] & { close: () => Promise<void> }>
  /** Default: a function that measures the sizes on the connection of the checks. */
  tableSizes?: DatabaseContext['tableSizes']
  /** Default: a function that reads the time on the connection of the checks. */
  databaseNow?: DatabaseContext['databaseNow']
  /** The time limit of each check, in ms; default: 5 seconds. */
  limitMs?: number
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
}

const defaultLimitMs = 5_000
const closeLimitMs = 1_000

const machineChecks: readonly Check<HealthContext>[] = [
  ...runtimeChecks,
  ...settingsChecks,
  ...fileChecks,
  ...tlsChecks,
]
const reachable = {
  id: 'database.reachable',
  area: 'database',
  title: 'Connection',
  rule: 'Fails if the database cannot be opened or does not respond; all other checks of the database are then left out. Warns if the SQLite file does not exist yet',
} as const
const emptyChecks = [...databaseChecks, ...postgresChecks, ...sqliteChecks]
const storedChecks = [...keyChecks, ...tableChecks, ...nodeChecks, ...workChecks, ...auditChecks]
/** The checks that need an open database. */
export const databaseCheckList: readonly Check<DatabaseContext>[] = [...emptyChecks, ...storedChecks]

type Described = Pick<Check<never>, 'id' | 'area' | 'title' | 'rule' | 'deep'>

/** All checks in the order in which they are listed. */
export const allChecks: readonly Described[] = [...machineChecks, reachable, ...emptyChecks, ...storedChecks].toSorted(
  byArea,
)

/** Thrown when a check exceeds its time limit. */
class TimedOut extends Error {
  override name = 'TimedOut'
}

type Limits = Pick<ExamineOptions, 'limitMs' | 'later'>

function limited<T>(work: Promise<T>, { limitMs = defaultLimitMs, later }: Limits): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const cancel = later(limitMs, () => reject(new TimedOut(`No response within ${limitMs / 1_000} seconds`)))
  return Promise.race([work, late]).finally(cancel)
}

interface Made {
  result: CheckResult | null
  isLate: boolean
}

/** Runs one check. Never rejects: if the check throws, it has failed. */
export async function runCheck<Context extends HealthContext>(
  check: Check<Context>,
  context: Context,
  limits: Limits,
): Promise<Made> {
  const { id, area, title, deep } = check
  if (deep === 'only' && !context.isDeep) return { result: null, isLate: false }
  try {
    const work = (async () => check.run(context))()
    const finding = await (deep && context.isDeep ? work : limited(work, limits))
    return { result: finding && { id, area, title, ...finding }, isLate: false }
  } catch (error) {
    const cure = 'Correct the cause, and run `plinth doctor` again'
    const finding = fail(`The check failed: ${messageOf(error)}`, cure)
    return { result: { id, area, title, ...finding }, isLate: error instanceof TimedOut }
  }
}

/** Returns an error's message, or those in an AggregateError: a refused connection has one error per address. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}

/** Returns the path of the database file, or the server and database name without credentials. */
function placeOf(url: string): string {
  const path = sqlitePath(url)
  if (path !== null) return path
  const { hostname, port, pathname } = new URL(url)
  return `${hostname || 'localhost'}:${port || 5_432}${pathname}`
}

/**
 * Runs the database checks one after another, so that they use one connection. Stops after a check that exceeded its
 * time limit.
 */
async function examineDatabase(options: ExamineOptions): Promise<CheckResult[]> {
  const { config, openDatabase, ...context } = options
  const url = databaseUrlOf(config.storage)
  const place = placeOf(url)
  const found = (finding: Finding): CheckResult => {
    const { id, area, title } = reachable
    return { id, area, title, ...finding }
  }
  const path = sqlitePath(url)
  if (path !== null && !existsSync(path)) {
    return [found(warn(`${place} does not exist`, 'The first `plinth serve` or `plinth migrate` creates it'))]
  }
  const opening = openDatabase()
  let db: Awaited<typeof opening>
  try {
    db = await limited(opening, options)
  } catch (error) {
    // If the connection is established after all, close it.
    opening.then(({ close }) => close()).catch(() => {})
    const cure =
      path === null ? 'Start the server, or correct DATABASE_URL' : `Make ${path} readable, or restore a backup`
    return [found(fail(`${place}: ${messageOf(error)}`, cure))]
  }
  const results = await all({ ...defaultMeasurements(db), ...context, config, db }, options)
  // If the server has stopped responding, `close` never resolves. The check that timed out has already reported this.
  await limited(db.close(), { ...options, limitMs: closeLimitMs }).catch(() => {})
  return [found(pass(`${db.engine.name === 'sqlite' ? 'SQLite' : 'PostgreSQL'}, ${place}`)), ...results]
}

/** The defaults of `tableSizes` and `databaseNow`. */
export const defaultMeasurements = (db: DatabaseContext['db']) => ({
  tableSizes: () => tableSizes(db),
  databaseNow: () => readDatabaseTime(db),
})

async function all(context: DatabaseContext, limits: Limits): Promise<CheckResult[]> {
  const results: CheckResult[] = []
  let isCurrent = false
  for (const check of databaseCheckList) {
    if (storedChecks.includes(check) && !isCurrent) continue
    const { result, isLate } = await runCheck(check, context, limits)
    if (result !== null) results.push(result)
    if (isLate) break
    if (check.id === migrationsCheckId) isCurrent = result?.status === 'pass'
  }
  return results
}

/** Runs all checks that apply. Never rejects. */
export async function examine(options: ExamineOptions): Promise<HealthReport> {
  const ofMachine = Promise.all(machineChecks.map((check) => runCheck(check, options, options)))
  const ofDatabase = await examineDatabase(options)
  const results = (await ofMachine).flatMap(({ result }) => (result === null ? [] : [result]))
  const checks = [...results, ...ofDatabase].toSorted(byArea)
  return {
    status: worst(checks.map(({ status }) => status)),
    checkedAt: new Date(options.now()).toISOString(),
    checks: checks.map((check) => ({ ...check, detail: check.detail.replaceAll(/\s+/g, ' ') })),
  }
}
