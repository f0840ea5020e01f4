import { useQuery, useQueryClient } from '@tanstack/react-query'
import { unwrap, useApi } from '../../api/client.ts'
import type { paths } from '../../api/schema.d.ts'

type History = paths['/api/metrics/history']['get']['responses'][200]['content']['application/json']
export type Point = History['points'][number]

/** The ranges that a person can choose, in seconds, with the length of a step. */
export const ranges = {
  hour: { title: 'Hour', seconds: 3_600, step: 15 },
  'six-hours': { title: '6 hours', seconds: 21_600, step: 120 },
  day: { title: 'Day', seconds: 86_400, step: 600 },
} as const
export type Range = keyof typeof ranges

export const isRange = (value: unknown): value is Range => typeof value === 'string' && Object.hasOwn(ranges, value)

const pollMs = 15_000

/**
 * The metrics of a range, for all charts. After the first request, each poll asks only for what is new since the last
 * point, which it replaces, because its step may not have been complete.
 */
export function useHistory(range: Range) {
  const api = useApi()
  const queries = useQueryClient()
  const queryKey = ['metrics-history', range]
  const { seconds, step } = ranges[range]
  return useQuery({
    queryKey,
    refetchInterval: pollMs,
    queryFn: async () => {
      const startMs = Date.now() - seconds * 1_000
      const known = (queries.getQueryData<Point[]>(queryKey) ?? []).filter(({ at }) => Date.parse(at) >= startMs)
      const from = known.at(-1)?.at ?? new Date(startMs).toISOString()
      const query = { from, step }
      const { points } = await unwrap(api.GET('/api/metrics/history', { params: { query } }))
      const first = points[0]?.at ?? ''
      return points.length === 0 ? known : [...known.filter(({ at }) => at < first), ...points]
    },
  })
}

/** The points of a chart: one per step, null for steps without samples, so that the line has gaps there. */
export interface Timeline {
  /** Seconds since the epoch. */
  times: number[]
  points: (Point | null)[]
}

export function timelineOf(points: readonly Point[], step: number): Timeline {
  const byTime = new Map(points.map((point) => [Date.parse(point.at) / 1_000, point]))
  const [first = 0] = byTime.keys()
  const last = Math.max(first, ...byTime.keys())
  const times =
    points.length === 0 ? [] : Array.from({ length: (last - first) / step + 1 }, (_, at) => first + at * step)
  return { times, points: times.map((time) => byTime.get(time) ?? null) }
}

/** Returns how many responses a point has. */
export const responsesOf = ({ succeeded, clientErrors, limited, serverErrors }: Point): number =>
  succeeded + clientErrors + limited + serverErrors

/** Returns a count per second; 0 for a point without seconds. */
export const perSecond = (count: number, { seconds }: Point): number => (seconds === 0 ? 0 : count / seconds)
