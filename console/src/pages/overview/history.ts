import { useQuery, useQueryClient } from '@tanstack/react-query'
import { unwrap, useApi } from '../../api/client.ts'
import type { paths } from '../../api/schema.d.ts'

type History = paths['/api/metrics/history']['get']['responses'][200]['content']['application/json']
export type Point = History['points'][number]

/** The time ranges to choose from; `step` is the time between two points, in seconds. */
export const ranges = {
  hour: { title: 'Hour', seconds: 3_600, step: 15 },
  'six-hours': { title: '6 hours', seconds: 21_600, step: 120 },
  day: { title: 'Day', seconds: 86_400, step: 600 },
} as const
export type Range = keyof typeof ranges

export const isRange = (value: unknown): value is Range => typeof value === 'string' && Object.hasOwn(ranges, value)

const pollMs = 15_000
/** The maximum time from the end of a 15-second sample until it is stored. */
const delayMs = 30_000

/** The metrics of a time range. */
export interface Known {
  /** Oldest first. */
  points: Point[]
  /** The end of the range by the service's clock, in ms since the epoch. */
  endMs: number
}

/**
 * Reads the metrics for all charts. After the first request, polls only for newer points and the last known one, whose
 * step may have been incomplete.
 */
export function useHistory(range: Range) {
  const api = useApi()
  const queries = useQueryClient()
  const queryKey = ['metrics-history', range]
  const { seconds, step } = ranges[range]
  return useQuery({
    queryKey,
    refetchInterval: pollMs,
    queryFn: async (): Promise<Known> => {
      const { data: before, dataUpdatedAt } = queries.getQueryState<Known>(queryKey) ?? {}
      const last = before?.points.at(-1)
      const ageMs = before && last ? before.endMs - Date.parse(last.at) + Date.now() - (dataUpdatedAt ?? 0) : Infinity
      const isNear = last !== undefined && ageMs < seconds * 1_000
      const from = isNear ? last.at : new Date(Date.now() - seconds * 1_000).toISOString()
      const view = await unwrap(api.GET('/api/metrics/history', { params: { query: { from, step } } }))
      const endMs = Date.parse(view.to)
      const old = isNear ? (before?.points ?? []) : []
      const kept = old.filter(({ at }) => Date.parse(at) >= endMs - seconds * 1_000 && at < (view.points[0]?.at ?? '~'))
      return { points: [...kept, ...view.points], endMs }
    },
  })
}

/** Returns the points, without the last one if it covers a single sample that some nodes have not stored yet. */
export function settled(points: readonly Point[]): readonly Point[] {
  const [before, last] = points.slice(-2)
  const isPartial = before && last && last.seconds <= 15 && last.nodes < before.nodes
  return isPartial ? points.slice(0, -1) : points
}

/** Returns true if no node has stored a sample for a while. */
export const isStale = ({ points, endMs }: Known, step: number): boolean =>
  Date.parse(points.at(-1)?.at ?? '') + step * 1_000 + delayMs < endMs - step * 1_000

/** The points of a chart, one per step. A step without samples is null, so that the line has a gap. */
export interface Timeline {
  /** Seconds since the epoch. */
  times: number[]
  points: (Point | null)[]
}

/** Returns one point per step; null for a step without samples. Steps whose points are overdue are included. */
export function timelineOf(
  points: readonly Point[],
  endMs: number,
  { seconds, step }: (typeof ranges)[Range],
): Timeline {
  const byTime = new Map(points.map((point) => [Date.parse(point.at) / 1_000, point]))
  const end = Math.floor((endMs - delayMs) / 1_000 / step) * step
  const last = Math.max(end - step, ...byTime.keys())
  const times = Array.from({ length: seconds / step }, (_, at) => last - seconds + (at + 1) * step)
  return { times, points: times.map((time) => byTime.get(time) ?? null) }
}

/** Returns the number of responses in a point. */
export const responsesOf = ({ succeeded, clientErrors, limited, serverErrors }: Point): number =>
  succeeded + clientErrors + limited + serverErrors

/** Converts a count to a rate per second; 0 if the point covers no time. */
export const perSecond = (count: number, { seconds }: Point): number => (seconds === 0 ? 0 : count / seconds)
