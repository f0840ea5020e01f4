import type { Registry } from 'prom-client'
import type { AccessLine } from '../http/server/access-log.ts'
import { addTo, type Counts, durationBounds, histogramSamples, newCounts, registerRead, totalOf } from './samples.ts'

/** The names of the versions, and the first path segments of the version that is also served without a prefix. */
export type VersionPaths = readonly { version: string; bare: readonly string[] }[]

/** The part of an access log line that is counted. */
export type CountedLine = Pick<AccessLine, 'route' | 'method' | 'status' | 'ms'>

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'other'] as const
const methodNumbers = new Map<string, number>(methods.map((name, at) => [name, at]))
const otherMethod = methods.indexOf('other')
/** Larger than any status, so that `method * statuses + status` is unique. */
const statuses = 1_000

const requests = 'plinth_http_requests_total'
const duration = 'plinth_http_request_duration_seconds'

/**
 * Counts responses and their durations by route, method and status, and registers both metrics. All labels are bounded:
 * requests without a route count as the route `unrouted`, and unusual methods as `other`. Counting finds a histogram by the
 * route's pattern and a number; labels are built only when the metrics are read.
 */
export function httpRequests(registry: Registry, versions: VersionPaths): (line: CountedLine) => void {
  const routes = new Map<string, Map<number, Counts>>()
  const labelsOf = routeLabels(versions)
  registerRead(registry, {
    name: requests,
    help: 'Responses by route pattern, method, status and API version',
    type: 'counter',
    read: function* () {
      for (const { labels, status, counts } of series(routes, labelsOf)) {
        yield { labels: { ...labels, status }, value: totalOf(counts) }
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
  return ({ route = 'unrouted', method, status, ms }) => {
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
    addTo(counts, durationBounds, ms / 1_000)
  }
}

type RouteLabels = (pattern: string) => { route: string; version: string }

/** Splits a route pattern into the pattern without its version and the version; `none` for routes without a version. */
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

/** Returns one series per set of labels; two patterns can be the same route, with and without the prefix of a version. */
function series(routes: ReadonlyMap<string, ReadonlyMap<number, Counts>>, labelsOf: RouteLabels): Series[] {
  const all = [...routes].flatMap(([pattern, ofRoute]) =>
    [...ofRoute].map(([key, counts]): Series => {
      const method = methods[Math.floor(key / statuses)] as string
      return { labels: { ...labelsOf(pattern), method }, status: String(key % statuses), counts }
    }),
  )
  return merged(all, ({ labels, status }) => `${labels.route} ${labels.version} ${labels.method} ${status}`)
}

/** Merges the statuses of a class, such as `2xx`. */
function byClass(all: readonly Series[]) {
  const classed = all.map(({ labels, status, counts }) => {
    const status_class = `${status[0]}xx`
    return { labels: { ...labels, status_class }, counts }
  })
  return merged(classed, ({ labels }) => Object.values(labels).join(' '))
}

/** Adds up the histograms with the same key; neither patterns nor methods contain spaces. */
function merged<One extends { counts: Counts }>(all: readonly One[], keyOf: (one: One) => string): One[] {
  return [...Map.groupBy(all, keyOf).values()].map((same) => ({
    ...(same[0] as One),
    counts: same
      .slice(1)
      .reduce((sum, { counts }) => sum.map((value, at) => value + (counts[at] as number)), (same[0] as One).counts),
  }))
}
