import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { collectDefaultMetrics, type Metric, type Registry } from 'prom-client'
import type { MeasuredQueue } from '../queue/queue.ts'
import type { Database, PoolMeasures } from '../storage/database.ts'
import { type CachedReadOptions, cachedRead } from './cached-read.ts'
import { registerRead, type Sample } from './samples.ts'

/**
 * The default metrics that are not registered: gauges whose names look like counters; metrics that call undocumented
 * functions of Node.js, which `nodejs_active_resources` replaces; and the CPU time, which starts at 0 in each thread and
 * which `processMetrics` replaces.
 */
const omitted = [
  ...['nodejs_active_resources_total', 'nodejs_active_handles_total', 'nodejs_active_requests_total'],
  ...['nodejs_active_handles', 'nodejs_active_requests'],
  ...['process_cpu_user_seconds_total', 'process_cpu_system_seconds_total', 'process_cpu_seconds_total'],
]

/**
 * Registers the metrics of this thread (heap, garbage collection, event loop) and, in `shared`, those of the process: CPU,
 * memory, and the number of threads. Call this only once per thread, because the observer of garbage collections is never
 * removed.
 */
export function processMetrics(registry: Registry, shared: Registry, role: 'serve' | 'background'): void {
  collectDefaultMetrics({ register: registry })
  for (const name of omitted) registry.removeSingleMetric(name)
  for (const { name } of registry.getMetricsAsArray()) {
    const metric = registry.getSingleMetric(name) as Metric & { aggregator: string }
    // The average of several threads would hide a thread that is blocked.
    if (metric.aggregator === 'average') metric.aggregator = 'max'
    if (!name.startsWith('process_')) continue
    shared.registerMetric(metric)
    registry.removeSingleMetric(name)
  }
  const loop = () => performance.eventLoopUtilization()
  const ofLoop = (name: string, help: string, read: () => number) =>
    registerRead(registry, { name, help, type: 'counter', read: () => [{ labels: { role }, value: read() / 1_000 }] })
  const active = 'Time for which event loops ran callbacks, by the role of their threads'
  ofLoop('plinth_event_loop_active_seconds_total', active, () => loop().active)
  const idle = 'Time for which event loops waited for events, by the role of their threads'
  ofLoop('plinth_event_loop_idle_seconds_total', idle, () => loop().idle)
  const ofProcess = (name: string, help: string, type: 'counter' | 'gauge', read: () => number | undefined) =>
    registerRead(shared, { name, help, type, read: () => sampleOf(read()) })
  const cpu = 'CPU time of the process, in user mode and in the kernel'
  ofProcess('process_cpu_seconds_total', cpu, 'counter', () => cpuSeconds('user') + cpuSeconds('system'))
  ofProcess('process_cpu_user_seconds_total', 'CPU time in user mode', 'counter', () => cpuSeconds('user'))
  ofProcess('process_cpu_system_seconds_total', 'CPU time in the kernel', 'counter', () => cpuSeconds('system'))
  ofProcess('plinth_process_threads', 'Threads of the process; only on Linux', 'gauge', threads)
}

const cpuSeconds = (mode: 'user' | 'system'): number => process.cpuUsage()[mode] / 1e6

const sampleOf = (value: number | undefined): Sample[] => (value === undefined ? [] : [{ labels: {}, value }])

/**
 * Returns the number of threads, including report threads and the threads of Node.js itself; undefined except on Linux.
 */
function threads(): number | undefined {
  if (process.platform !== 'linux') return undefined
  const [, count] = /^Threads:\s*(\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  return count === undefined ? undefined : Number(count)
}

export interface ThreadStateOptions {
  db: Pick<Database, 'measure'>
  queue: Pick<MeasuredQueue, 'running'>
}

/** Registers the metrics of this thread's database connections and running jobs. */
export function threadState(registry: Registry, { db, queue }: ThreadStateOptions): void {
  const gauge = (name: string, help: string, read: () => Sample[]) =>
    registerRead(registry, { name, help, type: 'gauge', read })
  const ofPools = (read: (pool: PoolMeasures) => number) => () =>
    db.measure().pools.map((pool) => ({ labels: { pool: pool.pool }, value: read(pool) }))
  gauge(
    'plinth_database_connections_max',
    'Largest number of connections of a pool; PostgreSQL only',
    ofPools(({ max }) => max),
  )
  gauge('plinth_database_connections', 'Open connections, by pool and state; PostgreSQL only', () =>
    db.measure().pools.flatMap(({ pool, open, idle }) => [
      { labels: { pool, state: 'idle' }, value: idle },
      { labels: { pool, state: 'used' }, value: open - idle },
    ]),
  )
  gauge(
    'plinth_database_connection_waiters',
    'Statements that wait for a connection; PostgreSQL only',
    ofPools(({ waiting }) => waiting),
  )
  gauge('plinth_queue_jobs_running', 'Jobs that this process runs, by kind', () =>
    queue.running().map(({ queue: kind, jobs }) => ({ labels: { kind }, value: jobs })),
  )
}

export interface FileStateOptions extends Omit<CachedReadOptions<unknown>, 'read' | 'freshMs' | 'limitMs'> {
  db: Pick<Database, 'measure'>
  /** Returns the free and total space for report files; null if the store has no limit. */
  space: () => Promise<{ freeBytes: number; totalBytes: number } | null>
}

const freshMs = 5_000
const limitMs = 1_000

/**
 * Registers the metrics of the write-ahead log and the result storage. Returns a function to call before each scrape; it
 * never rejects. While the file system does not respond, the metrics of the result storage have no samples.
 */
export function fileState(registry: Registry, { db, space, ...options }: FileStateOptions): () => Promise<void> {
  const readSpace = cachedRead({ ...options, freshMs, limitMs, read: space })
  let found: Awaited<ReturnType<typeof space>> = null
  const gauge = (name: string, help: string, samples: () => Sample[]) =>
    registerRead(registry, { name, help, type: 'gauge', read: samples })
  gauge('plinth_database_wal_bytes', 'Size of the write-ahead log; SQLite only', () =>
    sampleOf(db.measure().walBytes ?? undefined),
  )
  const capacity = 'Size of the file system of the results folder; folders only'
  gauge('plinth_results_capacity_bytes', capacity, () => sampleOf(found?.totalBytes))
  gauge('plinth_results_free_bytes', 'Free space for report files; folders only', () => sampleOf(found?.freeBytes))
  return async () => {
    found = await readSpace()
  }
}
