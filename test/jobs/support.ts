import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach } from 'node:test'
import { Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { jobAdder } from '../../src/jobs/enqueue.ts'
import type { FailedAttempt } from '../../src/jobs/run.ts'
import type {
  Attempt,
  JobAdder,
  JobOptions,
  ServedJob,
  ServedJobs,
  ServedSchedule,
} from '../../src/jobs/served-jobs.ts'
import { type JobWork, type JobWorkOptions, startJobs } from '../../src/jobs/start.ts'
import type { JobRow } from '../../src/jobs/states.ts'
import { openQueue } from '../../src/queue/open.ts'
import type { Queue } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import type { EngineUnderTest } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

type Run = (input: { n: number }, attempt: Attempt) => unknown

const inputOf = Compile(Type.Object({ n: Type.Integer() }))

/** Returns a job whose input is `{ n }`. */
export const jobOf = (name: string, run: Run, retries = 0): ServedJob => ({
  ...{ name, retries },
  inputError: (input) => (inputOf.Check(input) ? undefined : 'the input must be { n } with an integer'),
  run: async (input, attempt) => run(input as { n: number }, attempt),
})

export const served = (jobs: readonly ServedJob[], schedules: readonly ServedSchedule[] = []): ServedJobs => ({
  jobs: new Map(jobs.map((job) => [job.name, job])),
  schedules,
})

/** A worker with its own queue. */
export interface Node {
  work: JobWork
  queue: Queue
  enqueue: JobAdder['enqueue']
  stop: (graceMs?: number) => Promise<void>
}

export interface JobsUnderTest {
  db: Database
  clock: { now: number }
  failed: (FailedAttempt & { error: unknown })[]
  errors: unknown[]
  /** Starts a worker with these jobs. It is stopped after the test. */
  node: (jobs: ServedJobs, options?: Partial<JobWorkOptions> & { concurrency?: number }) => Promise<Node>
  add: (node: Node, input?: object, options?: JobOptions, name?: string) => Promise<void>
  rows: () => Promise<JobRow[]>
  /** Waits until the job at this index, in order of creation, meets the condition; returns it. */
  until: (what: string, meets: (row: JobRow) => boolean, at?: number) => Promise<JobRow>
  /** Waits until the job at this index, in order of creation, has this status; returns it. */
  reaches: (status: JobRow['status'], at?: number) => Promise<JobRow>
}

/** Creates a database for each test of the calling suite, with a clock that the test controls. */
export function jobsOn(engine: EngineUnderTest): JobsUnderTest {
  const nodes: Node[] = []
  const test = { clock: { now: 0 }, failed: [], errors: [] } as unknown as JobsUnderTest
  beforeEach(async () => {
    test.db = await engine.database()
    test.clock.now = Date.parse('2026-11-23T12:00:00.000Z')
    test.failed.length = 0
    test.errors.length = 0
  })
  afterEach(async () => {
    for (const { stop } of nodes.splice(0)) await stop()
    await test.db.close()
  })
  const now = () => test.clock.now
  test.node = async (jobs, { concurrency = 5, ...more } = {}) => {
    const { db } = test
    const onError = (error: unknown) => test.errors.push(error)
    // The queue uses the real clock; the test's clock determines when jobs are due.
    const queue = await openQueue({
      db,
      now: Date.now,
      random: () => 0.5,
      onError,
      concurrency: { 'job.run': concurrency },
    })
    const onFailed = (error: unknown, attempt: FailedAttempt) => test.failed.push({ ...attempt, error })
    const base = { db, queue, jobs, now, random: randomBytes, jitter: () => 0.5, redact: (text: string) => text }
    const work = startJobs({ ...base, onError, onFailed, ...more })
    const stop = async (graceMs = 1_000) => {
      work.stop()
      await queue.stop(graceMs)
    }
    const node = { work, queue, enqueue: jobAdder({ queue, jobs, now, random: randomBytes }).enqueue, stop }
    nodes.push(node)
    return node
  }
  test.add = (node, input = { n: 1 }, options = {}, name = 'count') => {
    // Gives each job a different creation time, by which `rows` sorts.
    test.clock.now++
    return test.db.write((tx) => node.enqueue(tx, name, input, options))
  }
  test.rows = () => test.db.read.selectFrom('declaredJobs').selectAll().orderBy('createdAt').orderBy('id').execute()
  test.until = (what, meets, at = 0) =>
    eventually(
      `job ${at} is ${what}`,
      async () => {
        const row = (await test.rows())[at]
        return row !== undefined && meets(row) && row
      },
      20_000,
    )
  test.reaches = (status, at) => test.until(status, (row) => row.status === status, at)
  return test
}
