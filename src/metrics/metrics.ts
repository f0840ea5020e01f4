import { AggregatorRegistry, Gauge, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client'
import { type AccessReports, accessMetrics } from './access.ts'
import { type CountedLine, httpRequests, type ResponseTotals, type VersionPaths } from './http-requests.ts'
import {
  type FileStateOptions,
  fileState,
  processMetrics,
  type ThreadStateOptions,
  threadState,
} from './process-state.ts'
import { counter } from './samples.ts'
import { type StoredState, type StoredStateOptions, storedState } from './stored-state.ts'
import { type TableSizesOptions, tableSizesState } from './table-sizes.ts'
import { topClients } from './top-clients.ts'
import { type WorkReports, workMetrics } from './work.ts'

export interface MetricsOptions {
  /** The Plinth version. */
  version: string
  versions: VersionPaths
  /** Returns the monotonic time in ms. */
  monotonic: () => number
  /**
   * The role of this thread; then the metrics of the process and of this thread are included. Set this only once per
   * thread. Null to omit them.
   */
  ofThread: 'serve' | 'background' | null
  /** Returns the counts of the other threads in this process; gets the counts of this thread. */
  others?: (own: ThreadCounts) => Promise<ThreadCounts[]>
}

/** The counts of one thread, in the form in which threads exchange them. */
export interface ThreadCounts {
  metrics: MetricObjectWithValues<MetricValue<string>>[]
  totals: Totals
}

/** The counts of a thread or a process since its start. */
export interface Totals extends ResponseTotals {
  /** The number of webhook calls that delivered an event. */
  delivered: number
  /** The number of failed webhook calls. */
  deliveryFailures: number
  /** The number of responses that are not in the request log. */
  unlogged: number
}

/**
 * The metrics of this process: callbacks through which components report what to count, and the text for the monitoring
 * system.
 */
export interface Metrics extends AccessReports, WorkReports {
  /** Returns all metrics in the Prometheus text format. */
  read: () => Promise<string>
  /** Counts a response. */
  onResponse: (line: CountedLine & { client: string | undefined }) => void
  /** Counts responses that are not in the request log. */
  onUnlogged: (count: number) => void
  /** Returns the totals of all threads of this process. */
  totals: () => Promise<Totals>
  /** Returns the counts of this thread only. */
  counted: () => Promise<ThreadCounts>
  /**
   * Reads the state of the queues and the database, as a scrape does; null if that fails, or before `watch` is called.
   */
  readState: () => Promise<StoredState | null>
  /**
   * Adds the metrics that are read at each scrape (a request by the monitoring system): the state of this thread, of the
   * database and of the result storage.
   */
  watch: (sources: ThreadStateOptions & StoredStateOptions & FileStateOptions & TableSizesOptions) => void
}

function addTotals(threads: readonly Totals[]): Totals {
  const add = (one: readonly number[], other: readonly number[]) =>
    one.map((count, at) => count + (other[at] as number))
  return threads.reduce((sum, one) => ({
    byClass: add(sum.byClass, one.byClass) as Totals['byClass'],
    durations: add(sum.durations, one.durations),
    delivered: sum.delivered + one.delivered,
    deliveryFailures: sum.deliveryFailures + one.deliveryFailures,
    unlogged: sum.unlogged + one.unlogged,
  }))
}

/** Adds up the counters and histograms of threads that have ended; their gauges no longer count. */
export async function sumOfEnded(threads: readonly ThreadCounts[]): Promise<ThreadCounts> {
  const counts = threads.map(({ metrics }) => metrics.filter(({ type }) => String(type) !== 'gauge'))
  const metrics = await AggregatorRegistry.aggregate(counts).getMetricsAsJSON()
  return { metrics, totals: addTotals(threads.map(({ totals }) => totals)) }
}

function addBuildInfo(registry: Registry, version: string): void {
  const info = { name: 'plinth_build_info', help: 'Always 1; the labels name the versions of Plinth and Node.js' }
  const build = new Gauge({ ...info, labelNames: ['version', 'node'], registers: [registry] })
  build.set({ version, node: process.version }, 1)
}

/** Creates the metrics of a process. */
export function openMetrics({ version, versions, monotonic, ofThread, others }: MetricsOptions): Metrics {
  const registry = new Registry()
  // Metrics that have the same values in all threads: those of the process, the database and the files.
  const shared = new Registry()
  addBuildInfo(shared, version)
  const { count, totals } = httpRequests(registry, versions)
  const countClient = topClients(registry, monotonic)
  const reports = { ...workMetrics(registry), ...accessMetrics(registry) }
  const unlogged = counter(registry, {
    name: 'plinth_request_log_skipped_total',
    help: 'Responses that are missing in the request log, because there were too many or the database did not store them',
  })
  const refreshers: (() => Promise<unknown>)[] = []
  const sums = { delivered: 0, deliveryFailures: 0, unlogged: 0 }
  let readState: Metrics['readState'] = async () => null
  if (ofThread !== null) processMetrics(registry, shared, ofThread)
  // The totals come first: they are those at the time of the call.
  const counted = async () => ({ totals: { ...totals(), ...sums }, metrics: await registry.getMetricsAsJSON() })
  const ofThreads = async () => {
    const own = await counted()
    return [own, ...((await others?.(own)) ?? [])]
  }
  return {
    ...reports,
    onCalled: (due, outcome) => {
      reports.onCalled(due, outcome)
      sums[outcome.delivered ? 'delivered' : 'deliveryFailures']++
    },
    onUnlogged: (missing) => {
      unlogged.inc(missing)
      sums.unlogged += missing
    },
    totals: async () => addTotals((await ofThreads()).map((one) => one.totals)),
    counted,
    readState: () => readState(),
    read: async () => {
      await Promise.all(refreshers.map((refresh) => refresh()))
      const summed = others && AggregatorRegistry.aggregate((await ofThreads()).map(({ metrics }) => metrics))
      return (await (summed ?? registry).metrics()) + (await shared.metrics())
    },
    onResponse: (line) => {
      count(line)
      if (line.client !== undefined) countClient(line.client)
    },
    watch: (sources) => {
      threadState(registry, sources)
      readState = storedState(shared, sources)
      refreshers.push(readState, fileState(shared, sources), tableSizesState(shared, sources))
    },
  }
}
