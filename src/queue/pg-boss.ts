import { EventEmitter } from 'node:events'
import { sql } from 'kysely'
import type { PoolConfig } from 'pg'
import { fromKysely, PgBoss } from 'pg-boss'
import { maxConnections, type Queryable } from '../storage/database.ts'
import { type JobStore, type Lease, leaseSeconds, type QueueName, type QueuePosition, queues } from './queue.ts'

const channel = 'plinth_queue'
const superviseSeconds = 5
/** The maximum duration of an attempt, with heartbeats. pg-boss requires less than a day. */
const maxRunSeconds = 23 * 3_600
/**
 * Without these timeouts, a claim whose response is lost would wait until the operating system closes the connection.
 */
const poolOptions: PoolConfig = {
  connectionTimeoutMillis: 3_000,
  query_timeout: 10_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
}

export interface BossOptions {
  /** Whether this process or thread runs jobs. If it only adds jobs, it neither supervises the queues nor listens. */
  isWorker: boolean
  onError: (error: unknown) => void
}

/**
 * Opens the queue on PostgreSQL, backed by pg-boss: jobs are added inside the caller's transaction, LISTEN/NOTIFY wakes
 * idle workers, and a job without a heartbeat for `leaseSeconds` goes to another worker.
 */
export async function bossStore(url: string, { isWorker, onError }: BossOptions): Promise<JobStore> {
  const boss = await startBoss(url, { isWorker, onError })
  const wakes = new EventEmitter()
  const wakeAll = () => {
    for (const queue of Object.keys(queues)) wakes.emit('wake', queue)
  }
  const onNotify = (queue: string) => wakes.emit('wake', queue)
  const listening = isWorker ? await boss.getDb().listen?.(channel, onNotify, wakeAll) : undefined
  return {
    // Polling finds delayed and retried jobs; NOTIFY announces new jobs.
    idlePollMs: 1_000,
    nextDue: async () => null,
    onWake: (wake) => void wakes.on('wake', wake),
    add: (tx, queue, payload, runAt, position) => add(boss, tx, queue, payload, runAt, position),
    claim: async (queue, limit) => {
      const { perGroup } = queues[queue]
      const options = { batchSize: limit, ...(perGroup !== null && { groupConcurrency: perGroup }) }
      return (await boss.fetch<object>(queue, options)).map(toLease(queue))
    },
    extend: async (lease) => touched(await boss.touch(lease.queue, attemptOf(lease))),
    finish: async (tx, leases) => {
      const [first] = leases
      if (first === undefined) return true
      const done = await boss.complete(first.queue, leases.map(attemptOf), null, { db: fromKysely(tx) })
      return affectedBy(done) === leases.length
    },
    release: (lease, delayMs) => release(boss, lease, delayMs),
    close: async () => {
      await listening?.close()
      await boss.stop({ graceful: false })
      // The pool closes before the server has closed the connections, so errors that they still report are ignored.
      boss.off('error', onError).on('error', () => {})
    },
  }
}

async function startBoss(url: string, { isWorker, onError }: BossOptions): Promise<PgBoss> {
  const boss = new PgBoss({
    connectionString: url,
    application_name: 'plinth-queue',
    max: isWorker ? maxConnections.queue : maxConnections.adding,
    ...poolOptions,
    schedule: false,
    supervise: isWorker,
    superviseIntervalSeconds: superviseSeconds,
    monitorIntervalSeconds: superviseSeconds,
  })
  boss.on('error', onError)
  try {
    await boss.start()
    await ensureQueues(boss)
  } catch (error) {
    await boss.stop({ graceful: false })
    throw error
  }
  return boss
}

async function add(
  boss: PgBoss,
  tx: Queryable,
  queue: QueueName,
  payload: object,
  runAt: number,
  position: QueuePosition | undefined,
): Promise<void> {
  const delayed = runAt > Date.now()
  const id = await boss.send(queue, payload, {
    db: fromKysely(tx),
    ...(delayed && { startAfter: new Date(runAt) }),
    ...(position && { group: { id: position.group }, priority: -position.turn }),
  })
  if (id === null) throw new Error(`The queue ${queue} did not accept the job`)
  if (!delayed) await sql`select pg_notify(${channel}, ${queue})`.execute(tx)
}

const queueOptions = {
  heartbeatSeconds: leaseSeconds,
  // Effectively unlimited, because workers decide when to give up, depending on the task or delivery.
  retryLimit: 10_000,
  retryDelay: 0,
  expireInSeconds: maxRunSeconds,
  deleteAfterSeconds: 3_600,
  retentionSeconds: 30 * 24 * 3_600,
}

/** Creates missing queues, and updates the options of queues that an earlier release created. */
async function ensureQueues(boss: PgBoss): Promise<void> {
  const existing = new Map((await boss.getQueues()).map((queue) => [queue.name, { ...queue }]))
  const expected = Object.entries(queueOptions)
  for (const name of Object.keys(queues)) {
    const stored: Record<string, unknown> | undefined = existing.get(name)
    if (stored && expected.every(([option, value]) => stored[option] === value)) continue
    await boss.createQueue(name, queueOptions)
    await boss.updateQueue(name, queueOptions)
  }
}

/** Returns the number of jobs that a fenced command affected; pg-boss returns it but omits it from the type. */
const affectedBy = (response: object) => (response as { affected?: number }).affected
const touched = (response: object) => affectedBy(response) === 1

const attemptOf = (lease: Lease) => ({ id: lease.id, retryCount: lease.fence })

const toLease = (queue: QueueName) => (job: { id: string; data: unknown; retryCount?: number }) => ({
  id: job.id,
  queue,
  fence: job.retryCount ?? 0,
  payload: job.data,
  attempt: (job.retryCount ?? 0) + 1,
})

async function release(boss: PgBoss, lease: Lease, delayMs: number): Promise<void> {
  const failed = touched(await boss.fail(lease.queue, attemptOf(lease)))
  if (failed && delayMs > 0) {
    await boss.update(lease.queue, undefined, { id: lease.id, startAfter: new Date(Date.now() + delayMs) })
  }
}
