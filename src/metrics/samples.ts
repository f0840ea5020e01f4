import { Counter, Histogram, type Metric, type Registry } from 'prom-client'

export type MetricLabels = Readonly<Record<string, string>>

/** One line of a metric. `metricName` is set only for histograms, because the names of their lines have suffixes. */
export interface Sample {
  labels: MetricLabels | Readonly<Record<string, string | number>>
  value: number
  metricName?: string
}

/** A metric whose samples are computed when it is read. */
export interface ReadMetric {
  name: string
  /** A single sentence without a period at the end. */
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  /** Returns the current samples; none if the values are unknown. */
  read: () => Iterable<Sample>
}

/** Registers a metric whose samples are computed only when the metrics are read. */
export function registerRead(registry: Registry, { name, help, type, read }: ReadMetric): void {
  const get = async () => ({ name, help, type, values: [...read()], aggregator: 'sum' })
  // At run time, the registry needs only these members, but its types accept only prom-client's own classes.
  registry.registerMetric({ name, help, type, get } as unknown as Metric)
}

/** Upper bounds in seconds for the durations of requests, webhook calls and write transactions. */
export const durationBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const

/** The counts of a histogram: one per bound, one for values above all bounds, and the sum of the values. */
export type Counts = Float64Array

export const newCounts = (bounds: readonly number[]): Counts => new Float64Array(bounds.length + 2)

/** Adds a value to a histogram, without allocating memory. */
export function observeValue(counts: Counts, bounds: readonly number[], value: number): void {
  let at = 0
  while (at < bounds.length && value > (bounds[at] as number)) at++
  counts[at] = (counts[at] as number) + 1
  counts[bounds.length + 1] = (counts[bounds.length + 1] as number) + value
}

/** Returns the number of values in a histogram. */
export function observations(counts: Counts): number {
  let total = 0
  for (let at = 0; at < counts.length - 1; at++) total += counts[at] as number
  return total
}

/** Returns the cumulative samples of a histogram. */
export function* histogramSamples(
  name: string,
  labels: MetricLabels,
  counts: Counts,
  bounds: readonly number[],
): Iterable<Sample> {
  let total = 0
  for (const [at, bound] of bounds.entries()) {
    total += counts[at] as number
    yield { metricName: `${name}_bucket`, labels: { ...labels, le: bound }, value: total }
  }
  total += counts[bounds.length] as number
  yield { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: total }
  yield { metricName: `${name}_sum`, labels, value: counts[bounds.length + 1] as number }
  yield { metricName: `${name}_count`, labels, value: total }
}

/** The name, help text and labels of a metric that prom-client counts. */
type About = { name: string; help: string; labelNames?: string[] }
/** Registers a counter; use it only for events that are rarer than requests. */
export const counter = (registry: Registry, about: About) => new Counter({ ...about, registers: [registry] })
/** Registers a histogram; use it only for events that are rarer than requests. */
export const histogram = (registry: Registry, about: About, buckets: readonly number[]) =>
  new Histogram({ ...about, buckets: [...buckets], registers: [registry] })
