import type { Registry } from 'prom-client'
import { type AccessLine, classIndexOf, type ResponseCounts } from '../http/server/access-log.ts'
import {
  type Counts,
  durationBounds,
  histogramSamples,
  newCounts,
  observations,
  observeValue,
  registerRead,
} from './samples.ts'

/** The API versions, each with the first path segments that it also serves without a version prefix. */
export type VersionPaths = readonly { version: string; bare: readonly string[] }[]

/** The fields of an access log line that the metrics use. */
export type CountedLine = Pick<AccessLine, 'route' | 'method' | 'status' | 'ms'>

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'other'] as const
const methodNumbers = new Map<string, number>(methods.map((name, at) => [name, at]))
const otherMethod = methods.indexOf('other')
/** A factor larger than any status, so that `method * statuses + status` is unique. */
const statuses = 1_000

const requests = 'plinth_http_requests_total'
const duration = 'plinth_http_request_duration_seconds'

/** The responses since the start of the process, by class of status and by duration (`durationBounds`). */
export interface ResponseTotals {
  byClass: ResponseCounts
  /** The number of responses in each bucket: one bucket per bound, and one for longer durations. */
  durations: number[]
}

export interface HttpRequests {
  count: (line: CountedLine) => void
  /** Adds up the counts of all routes. */
  totals: () => ResponseTotals
}

/**
 * Counts responses and their durations by route, method and status, and registers both metrics. The number of label
 * values is bounded: requests without a route count as the route `unrouted`, and unusual methods as `other`. For speed,
 * a histogram is found by the route pattern and a number that encodes the method and status; labels are built only when
 * the metrics are read.
 */
export function httpRequests(registry: Registry, versions: VersionPaths): HttpRequests {
  const routes = new Map<string, Map<number, Counts>>()
  const labelsOf = routeLabels(versions)
  registerRead(registry, {
    name: requests,
    help: 'Responses by route pattern, method, status and API version',
    type: 'counter',
    read: function* () {
      for (const { labels, status, counts } of series(routes, labelsOf)) {
        yield { labels: { ...labels, status }, value: observations(counts) }
      }
    },
  })
  registerRead(registry, {
    name: duration,
    help: 'Time from the header of a request to the start of its response, by route pattern, method, class of status and API version',
    type: 'histogram',
    read: function* () {
      for (const { labels, counts } of byClass(series(routes, labelsOf))) {
        yield* histogramSamples(duration, labels, counts, durationBounds)
      }
    },
  })
  const count = ({ route = 'unrouted', method, status, ms }: CountedLine) => {
    const key = (methodNumbers.get(method) ?? otherMethod) * statuses + status
    let ofRoute = routes.get(route)
    if (ofRoute === undefined) {
      ofRoute = new Map()
      routes.set(route, ofRoute)
    }
    let counts = ofRoute.get(key)
    if (counts === undefined) {
      counts = newCounts(durationBounds)
      ofRoute.set(key, counts)
    }
    observeValue(counts, durationBounds, ms / 1_000)
  }
  return { count, totals: () => totalsOf(routes) }
}

function totalsOf(routes: ReadonlyMap<string, ReadonlyMap<number, Counts>>): ResponseTotals {
  const byClass: ResponseCounts = [0, 0, 0, 0]
  const durations = new Array<number>(durationBounds.length + 1).fill(0)
  for (const ofRoute of routes.values()) {
    for (const [key, counts] of ofRoute) {
      byClass[classIndexOf(key % statuses)] += observations(counts)
      for (let at = 0; at < durations.length; at++) durations[at] = (durations[at] as number) + (counts[at] as number)
    }
  }
  return { byClass, durations }
}

type RouteLabels = (pattern: string) => { route: string; version: string }

/**
 * Returns a function that splits a route pattern into its version and the rest; the version is `none` for routes
 * without one.
 */
function routeLabels(versions: VersionPaths): RouteLabels {
  const ofSegment = new Map<string, { version: string; isPrefix: boolean }>()
  for (const { version, bare } of versions) {
    ofSegment.set(version, { version, isPrefix: true })
    for (const segment of bare) ofSegment.set(segment, { version, isPrefix: false })
  }
  return (pattern) => {
    const segment = pattern.split('/', 2)[1] ?? ''
    const found = ofSegment.get(segment)
    if (found === undefined) return { route: pattern, version: 'none' }
    return { route: found.isPrefix ? pattern.slice(segment.length + 1) : pattern, version: found.version }
  }
}

interface Series {
  labels: { route: string; version: string; method: string }
  status: string
  counts: Counts
}

/**
 * Returns one series per set of labels. Two patterns may have the same labels, because a route may be served both with
 * and without a version prefix.
 */
function series(routes: ReadonlyMap<string, ReadonlyMap<number, Counts>>, labelsOf: RouteLabels): Series[] {
  const all = [...routes].flatMap(([pattern, ofRoute]) =>
    [...ofRoute].map(([key, counts]): Series => {
      const method = methods[Math.floor(key / statuses)] as string
      return { labels: { ...labelsOf(pattern), method }, status: String(key % statuses), counts }
    }),
  )
  return merged(all, ({ labels, status }) => `${labels.route} ${labels.version} ${labels.method} ${status}`)
}

/** Merges the series of all statuses in a class, such as `2xx`. */
function byClass(all: readonly Series[]) {
  const classed = all.map(({ labels, status, counts }) => {
    const status_class = `${status[0]}xx`
    return { labels: { ...labels, status_class }, counts }
  })
  return merged(classed, ({ labels }) => Object.values(labels).join(' '))
}

/**
 * Adds up the histograms that have the same key. Keys are joined with spaces, which neither patterns nor methods
 * contain.
 */
function merged<One extends { counts: Counts }>(all: readonly One[], keyOf: (one: One) => string): One[] {
  return [...Map.groupBy(all, keyOf).values()].map((same) => ({
    ...(same[0] as One),
    counts: same
      .slice(1)
      .reduce((sum, { counts }) => sum.map((value, at) => value + (counts[at] as number)), (same[0] as One).counts),
  }))
}
