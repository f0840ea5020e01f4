import { Gauge, Registry } from 'prom-client'
import { type AccessReports, accessMetrics } from './access.ts'
import { type CountedLine, httpRequests, type VersionPaths } from './http-requests.ts'
import { type FileStateOptions, fileState, processMetrics } from './process-state.ts'
import { type StoredStateOptions, storedState } from './stored-state.ts'
import { type TableSizesOptions, tableSizesState } from './table-sizes.ts'
import { topClients } from './top-clients.ts'
import { type WorkReports, workMetrics } from './work.ts'

export interface MetricsOptions {
  /** The Plinth version. */
  version: string
  versions: VersionPaths
  /** Monotonic clock in ms. */
  monotonic: () => number
  /** Whether to include the metrics of the process. Set this only once per process. */
  ofProcess: boolean
}

/**
 * The metrics of this process: functions with which components report what to count, and the text for the monitoring
 * system.
 */
export interface Metrics extends AccessReports, WorkReports {
  /** Returns all metrics in the Prometheus text format. */
  read: () => Promise<string>
  /** Counts a response. */
  onResponse: (line: CountedLine & { client: string | undefined }) => void
  /** Adds the metrics that are read when the monitoring system requests them (a scrape). */
  watch: (sources: StoredStateOptions & FileStateOptions & TableSizesOptions) => void
}

/** Creates the metrics of a process. */
export function openMetrics({ version, versions, monotonic, ofProcess }: MetricsOptions): Metrics {
  const registry = new Registry()
  const info = { name: 'plinth_build_info', help: 'Always 1; the labels name the versions of Plinth and Node.js' }
  const build = new Gauge({ ...info, labelNames: ['version', 'node'], registers: [registry] })
  build.set({ version, node: process.version }, 1)
  const count = httpRequests(registry, versions)
  const countClient = topClients(registry, monotonic)
  const reports = { ...workMetrics(registry), ...accessMetrics(registry) }
  const refreshers: (() => Promise<void>)[] = []
  if (ofProcess) processMetrics(registry)
  return {
    ...reports,
    read: async () => {
      await Promise.all(refreshers.map((refresh) => refresh()))
      return registry.metrics()
    },
    onResponse: (line) => {
      count(line)
      if (line.client !== undefined) countClient(line.client)
    },
    watch: (sources) => {
      refreshers.push(storedState(registry, sources), fileState(registry, sources), tableSizesState(registry, sources))
    },
  }
}
