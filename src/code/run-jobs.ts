import type { TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import type { Config } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import { jobAdder } from '../jobs/enqueue.ts'
import type { Attempt, JobAdder, ServedJob, ServedJobs } from '../jobs/served-jobs.ts'
import type { Log } from '../logging/entries.ts'
import { errorRedactor, logJobs } from '../logging/notices.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { RevocationEpoch } from '../oauth/tokens/revocation-epoch.ts'
import { isZone } from '../resources/conditions/today.ts'
import { inUnit } from '../resources/writes/unit.ts'
import { DefinitionError } from '../startup-errors.ts'
import type { Sealer } from '../storage/encryption.ts'
import { iso, uuidSource } from '../storage/ids.ts'
import { repeatingWrites } from '../storage/repeating-writes.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import type { ThreadContext } from '../threads/context.ts'
import { codeNameOf } from '../threads/memory.ts'
import { accountRules, serviceCaller } from './accounts.ts'
import { type CodeOptions, serviceCode } from './author-code.ts'
import { runOutsideTransaction } from './calls.ts'
import type { Code } from './collect.ts'
import { codeContext } from './context.ts'
import type { JobContext } from './context-types.ts'
import type { Schedule } from './jobs.ts'
import type { Unit } from './rows/context-rows.ts'
import { codeLogIn } from './services.ts'

/** The jobs of a service, and the functions that add them. */
export interface CodeJobs {
  jobs: ServedJobs
  adder: JobAdder
}

export type CodeJobsOptions = Omit<CodeOptions, 'jobs' | 'zone'> & { zone: string }

/** Prepares the jobs and schedules of a service. */
export function codeJobs(code: Code, options: CodeJobsOptions): CodeJobs {
  const { queue, now, random, zone } = options
  const db = repeatingWrites(options.db)
  const inTurn = oneAtATime()
  const schedules = code.schedules.map((one) => ({
    name: one.name,
    cron: one.cron,
    zone: one.zone ?? zone,
    missed: one.missed,
  }))
  const run = (label: string, { signal }: Attempt, work: (context: JobContext) => unknown) =>
    runOutsideTransaction(label, options, (calls) => {
      const by = () => ({ caller: serviceCaller, now: iso(now()) })
      const write = <T>(inside: Unit<T>) => db.write((tx) => inUnit(tx, by(), (unit) => inside(tx, unit)))
      const aside = <T>(read: (requester: ScanRequester) => Promise<T>) =>
        inTurn(() => read({ account: 'jobs', signal }))
      return work(codeContext(parts, { label, place: { write, aside }, by: by(), calls, signal }))
    })
  const served: ServedJob[] = [
    ...code.jobs.map(({ name, label, input, retries, run: work }) => ({
      ...{ name, retries, inputError: inputCheck(input) },
      run: (value: unknown, attempt: Attempt) => run(label, attempt, (context) => work(value as never, context)),
    })),
    ...code.schedules.map(({ name, label, retries, run: work }) => ({
      ...{ name, retries, inputError: noInput },
      run: (_: unknown, attempt: Attempt) => run(label, attempt, (context) => work(context)),
    })),
  ]
  const jobs = { jobs: new Map(served.map((one) => [one.name, one])), schedules }
  const adder = jobAdder({ queue, jobs, now, random })
  const { parts } = serviceCode(code, { ...options, jobs: adder })
  return { jobs, adder }
}

/** Returns a function that runs reads one at a time, because each account may have only a few scans waiting. */
function oneAtATime() {
  let last: Promise<unknown> = Promise.resolve()
  return <T>(work: () => Promise<T>): Promise<T> => {
    const result = last.then(work)
    last = result.catch(() => {})
    return result
  }
}

interface Opening
  extends Omit<CodeJobsOptions, 'all' | 'zone' | 'accounts' | 'newUuid' | 'publicRead' | 'requireIfMatch' | 'log'> {
  config: Config
  sealer: Sealer
  revocations: RevocationEpoch
  env: Readonly<Record<string, string | undefined>>
  log: Log
  metrics: Pick<Metrics, 'onJobEnded'>
  /** Null if the service runs in one thread. */
  thread: ThreadContext | null
}

/** Prepares the code of a definition: its dependencies and its jobs. */
export function openCode(definition: Definition, opening: Opening) {
  const { code, zone, collections, users } = definition
  const { config, env, log, metrics, monotonic, fetch, thread } = opening
  const accounts = accountRules(users, opening)
  const running = thread ? codeNameOf(thread.memory, thread.number).set : undefined
  const services = { log: codeLogIn(log), monotonic, fetch, running }
  const ofRequests = { publicRead: false, requireIfMatch: false }
  const all = collections.map(({ declaration }) => declaration)
  const newUuid = uuidSource(opening)
  const { db } = accounts
  const { jobs, adder } = codeJobs(code, { ...opening, ...services, ...ofRequests, db, zone, all, newUuid, accounts })
  const declaredJobs = { jobs, redact: errorRedactor(config, env), ...logJobs(log), onEnded: metrics.onJobEnded }
  const { jobSeconds } = config.jobs
  return { jobs, jobSeconds, declaredJobs, codeServices: { ...services, jobs: adder } }
}

/** Checks the cron expressions and time zones of schedules. Rejects with `DefinitionError` if one is invalid. */
export async function checkSchedules(schedules: readonly Schedule[]): Promise<void> {
  if (schedules.length === 0) return
  // Loaded on demand, because few services need the cron parser.
  const { cronError } = await import('../jobs/cron.ts')
  const errors = schedules.flatMap(({ label, cron, zone }) => {
    const error = cronError(cron)
    return [
      ...(error === undefined ? [] : [`${label}: ${error}`]),
      ...(zone === undefined || isZone(zone)
        ? []
        : [`${label}: zone must be the name of a time zone such as 'Europe/Berlin', not '${zone}'`]),
    ]
  })
  if (errors.length > 0) throw new DefinitionError(errors)
}

const noInput = (value: unknown) => (value === null ? undefined : 'a schedule has no input')

/** Maximum number of violations in an error text. */
const maxViolations = 5

/**
 * Returns a function that describes why a value does not match a schema; undefined if it matches. The schema is
 * compiled on the first call.
 */
function inputCheck(schema: TSchema | undefined): ServedJob['inputError'] {
  let check: ReturnType<typeof Compile> | undefined
  return (value) => {
    if (schema === undefined) return undefined
    check ??= Compile(schema)
    if (check.Check(value)) return undefined
    const violations = check.Errors(value)[1].slice(0, maxViolations)
    return `the input is invalid: ${violations.map(({ instancePath, message }) => `${instancePath || '/'} ${message}`).join('; ')}`
  }
}
