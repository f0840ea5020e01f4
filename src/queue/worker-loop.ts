import {
  type ClaimedJob,
  heartbeatSeconds,
  type JobSpan,
  type JobStore,
  type Lease,
  LeaseLost,
  type OnQueueError,
  payloadTrace,
  type QueueName,
  queues,
  type WorkCall as RunReport,
  type StartJobSpan,
  Stopping,
  type Work,
  type WorkTogether,
} from './queue.ts'

/** How to process jobs that were claimed together. */
export type WorkPlan = {
  /** Number of jobs per call to `work`. */
  atOnce: number
  work: (payloads: Lease[], job: Pick<ClaimedJob, 'signal' | 'finish' | 'trace'>) => Promise<void>
}

/** Runs each job individually. */
export const oneByOne = (work: Work): WorkPlan => ({
  atOnce: 1,
  work: ([lease], job) => work({ ...job, payload: lease?.payload, attempt: lease?.attempt ?? 1 }),
})

/** Runs all claimed jobs as one batch. */
export const together = (work: WorkTogether): WorkPlan => ({
  atOnce: Number.POSITIVE_INFINITY,
  work: (leases, job) => work({ ...job, payloads: leases.map(({ payload }) => payload) }),
})

export interface LoopOptions {
  store: JobStore
  queue: QueueName
  run: WorkPlan
  concurrency: number
  now: () => number
  random: () => number
  onError: OnQueueError
  /** Called after each run. */
  onRun: (run: RunReport) => void
  startSpan?: StartJobSpan | undefined
}

interface Loop extends LoopOptions {
  running: Map<string, { lease: Lease; abort: AbortController; done: Promise<void> }>
  timer: NodeJS.Timeout | undefined
  /** The poll in progress; `again` requests another poll right after it. */
  polling: Promise<void> | undefined
  again: boolean
  stopped: boolean
}

const errorPauseMs = 1_000
const backoffLimitMs = 60_000
const groupPollMs = 250

/** Claims jobs from one queue and runs up to `concurrency` at once. Wakes when the store signals or a job is due. */
export function startLoop(options: LoopOptions) {
  const loop: Loop = {
    ...options,
    running: new Map(),
    timer: undefined,
    polling: undefined,
    again: false,
    stopped: false,
  }
  const pulse = setInterval(() => heartbeat(loop), heartbeatSeconds * 1_000)
  wake(loop)
  return {
    wake: () => wake(loop),
    /** Returns the number of jobs that are running. */
    running: () => loop.running.size,
    stop: async (graceMs: number) => {
      await drain(loop, graceMs)
      clearInterval(pulse)
      await releaseAll(loop)
    },
  }
}

function wake(loop: Loop): void {
  if (loop.stopped) return
  if (loop.polling) loop.again = true
  else loop.polling = poll(loop)
}

async function poll(loop: Loop): Promise<void> {
  clearTimeout(loop.timer)
  const pauseMs = await fill(loop).catch((error) => {
    loop.onError(error, loop.queue)
    return errorPauseMs
  })
  loop.polling = undefined
  if (loop.stopped) return
  loop.timer = setTimeout(() => wake(loop), loop.again ? 0 : pauseMs)
  loop.again = false
}

/** Claims as many jobs as there are free slots; returns the time in ms until more may be available. */
async function fill(loop: Loop): Promise<number> {
  const { store, queue, running, concurrency } = loop
  const free = concurrency - running.size
  if (free <= 0) return store.idlePollMs
  const leases = await store.claim(queue, free)
  const { atOnce } = loop.run
  for (let at = 0; at < leases.length; at += atOnce) start(loop, leases.slice(at, at + atOnce))
  // All slots are full; the loop polls again as soon as one is free.
  if (leases.length === free) return store.idlePollMs
  const due = await store.nextDue(queue)
  // Due jobs that were not claimed belong to groups at their limit, and wait until a running job of the group finishes.
  const minMs = queues[queue].perGroup === null ? 0 : groupPollMs
  return due === null ? store.idlePollMs : Math.min(Math.max(due - loop.now(), minMs), store.idlePollMs)
}

function start(loop: Loop, leases: Lease[]): void {
  const abort = new AbortController()
  const done = runJobs(loop, leases, abort.signal).finally(() => {
    for (const lease of leases) loop.running.delete(claimOf(lease))
    wake(loop)
  })
  for (const lease of leases) loop.running.set(claimOf(lease), { lease, abort, done })
  if (loop.stopped) abort.abort(new Stopping())
}

/** Includes the fence, because a process may claim a job again while its own expired claim is still running. */
const claimOf = ({ id, fence }: Lease) => `${id}/${fence}`

async function runJobs(loop: LoopOptions, leases: Lease[], signal: AbortSignal): Promise<void> {
  const { store, queue, run, onError, onRun } = loop
  const beganMs = performance.now()
  const report = (outcome: RunReport['outcome']) =>
    onRun({ queue, jobs: leases.length, seconds: (performance.now() - beganMs) / 1_000, outcome })
  const finish = async (tx: Parameters<JobStore['finish']>[0]) => {
    if (!(await store.finish(tx, leases))) throw new LeaseLost()
  }
  const span = spanOf(loop, leases)
  try {
    const [own = null] = leases.length === 1 ? leases.map(payloadTrace) : []
    await run.work(leases, { signal, finish, trace: span?.trace ?? own })
    span?.end()
    report('done')
  } catch (error) {
    span?.end(isReturned(error) ? undefined : error)
    report(isReturned(error) ? 'returned' : 'failed')
    // One job may have made the whole batch fail, so each job is retried individually.
    if (leases.length > 1) {
      if (!isReturned(error)) onError(error, queue)
      for (const lease of leases) await runJobs(loop, [lease], signal)
      return
    }
    await giveUp(loop, leases[0] as Lease, error)
  }
}

/** Returns true if the job goes back to the queue without having succeeded or failed. */
const isReturned = (error: unknown) => error instanceof LeaseLost || error instanceof Stopping

function spanOf({ startSpan, queue }: LoopOptions, leases: Lease[]): JobSpan | undefined {
  const traces = startSpan ? leases.map(payloadTrace).filter((trace) => trace !== null) : []
  return startSpan?.({ queue, traces, count: leases.length, attempt: leases[0]?.attempt ?? 1 })
}

async function giveUp({ store, queue, random, onError }: LoopOptions, lease: Lease, error: unknown): Promise<void> {
  if (error instanceof LeaseLost) return
  const stopping = error instanceof Stopping
  if (!stopping) onError(error, queue, lease)
  const delayMs = stopping ? 0 : Math.min(2 ** lease.attempt * 500, backoffLimitMs) * (0.8 + 0.4 * random())
  await store.release(lease, delayMs).catch((failure) => onError(failure, queue))
}

async function heartbeat({ store, queue, running, onError }: Loop): Promise<void> {
  for (const { lease, abort } of [...running.values()]) {
    const held = await store.extend(lease).catch((error) => {
      // A failed heartbeat is harmless: if the lease was lost, a later heartbeat or the fencing token detects that.
      onError(error, queue)
      return true
    })
    if (!held) abort.abort(new LeaseLost())
  }
}

async function drain(loop: Loop, graceMs: number): Promise<void> {
  loop.stopped = true
  clearTimeout(loop.timer)
  await loop.polling
  for (const { abort } of loop.running.values()) abort.abort(new Stopping())
  const grace = new Promise((resolve) => setTimeout(resolve, graceMs).unref())
  await Promise.race([Promise.all([...loop.running.values()].map(({ done }) => done)), grace])
}

async function releaseAll({ store, queue, running, onError }: Loop): Promise<void> {
  for (const { lease } of running.values()) await store.release(lease, 0).catch((error) => onError(error, queue))
}
