import { Gauge, Registry } from 'prom-client'
import { type CountedLine, httpRequests, type VersionPaths } from './http-requests.ts'
import { topClients } from './top-clients.ts'

export interface MetricsOptions {
  /** The Plinth version. */
  version: string
  versions: VersionPaths
  /** Monotonic clock in ms. */
  monotonic: () => number
}

/** The metrics of this process: callbacks for the components to report to, and the text for the monitoring system. */
export interface Metrics {
  /** Returns all metrics in the Prometheus text format. */
  read: () => Promise<string>
  /** Counts a response. */
  onResponse: (line: CountedLine & { client: string | undefined }) => void
}

/** Creates the metrics of a process. */
export function openMetrics({ version, versions, monotonic }: MetricsOptions): Metrics {
  const registry = new Registry()
  const info = { name: 'plinth_build_info', help: 'Always 1; the labels name the versions of Plinth and Node.js' }
  new Gauge({ ...info, labelNames: ['version', 'node'], registers: [registry] }).set(
    { version, node: process.version },
    1,
  )
  const count = httpRequests(registry, versions)
  const countClient = topClients(registry, monotonic)
  return {
    read: () => registry.metrics(),
    onResponse: (line) => {
      count(line)
      if (line.client !== undefined) countClient(line.client)
    },
  }
}
