import { Link } from '@tanstack/react-router'
import { lazy, type ReactNode, Suspense } from 'react'
import { visible } from '../../navigation.ts'
import { useSession } from '../../session/session.ts'
import type { Series } from '../../ui/chart.tsx'
import { bytesText, countText, durationText } from '../../ui/format.tsx'
import { type Point, perSecond, type Timeline } from './history.ts'

const Chart = lazy(() => import('../../ui/chart.tsx'))

interface Line {
  label: string
  color: string
  value: (point: Point) => number | null
}

interface Shown {
  title: string
  /** Titles of related pages. The chart's title links to the first one that the user may see. */
  pages: readonly string[]
  format: (value: number) => string
  increments?: readonly number[]
  lines: readonly Line[]
}

/** Formats a rate, such as "0.4/s". */
export function rateText(value: number): string {
  const digits = value === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2
  return `${countText(Number(value.toFixed(digits)))}/s`
}

/** Allowed distances between grid lines: whole numbers and, for bytes, powers of two. */
const whole = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat()
const binary = Array.from({ length: 50 }, (_, power) => 2 ** power)

const charts: readonly Shown[] = [
  {
    title: 'Requests',
    pages: ['Traffic'],
    format: rateText,
    lines: [
      { label: 'Succeeded', color: '--good', value: (point) => perSecond(point.succeeded, point) },
      { label: '4xx', color: '--warn', value: (point) => perSecond(point.clientErrors, point) },
      { label: '5xx', color: '--wrong', value: (point) => perSecond(point.serverErrors, point) },
    ],
  },
  {
    title: 'Latency',
    pages: ['Requests', 'Traffic'],
    format: durationText,
    lines: [
      { label: 'p50', color: '--good', value: ({ p50Ms }) => p50Ms },
      { label: 'p99', color: '--accent', value: ({ p99Ms }) => p99Ms },
    ],
  },
  {
    title: 'Rate limited',
    pages: ['Traffic'],
    format: rateText,
    lines: [{ label: '429', color: '--warn', value: (point) => perSecond(point.limited, point) }],
  },
  {
    title: 'Waiting work',
    pages: ['Reports', 'Health'],
    format: countText,
    increments: whole,
    lines: [
      { label: 'Jobs', color: '--accent', value: ({ jobsWaiting }) => jobsWaiting },
      { label: 'Deliveries', color: '--warn', value: ({ deliveriesWaiting }) => deliveriesWaiting },
    ],
  },
  {
    title: 'Age of the oldest work',
    pages: ['Reports', 'Health'],
    format: durationText,
    lines: [
      { label: 'Job', color: '--accent', value: ({ oldestJobMs }) => oldestJobMs },
      { label: 'Delivery', color: '--warn', value: ({ oldestDeliveryMs }) => oldestDeliveryMs },
    ],
  },
  {
    title: 'Webhook calls',
    pages: ['Webhooks'],
    format: rateText,
    lines: [
      { label: 'Delivered', color: '--good', value: (point) => perSecond(point.delivered, point) },
      { label: 'Failed', color: '--wrong', value: (point) => perSecond(point.deliveryFailures, point) },
    ],
  },
  {
    title: 'Event loop delay',
    pages: ['Nodes', 'Health'],
    format: durationText,
    lines: [{ label: 'Slowest node, p99', color: '--accent', value: ({ loopDelayMs }) => loopDelayMs }],
  },
  {
    title: 'Memory',
    pages: ['Nodes', 'Health'],
    format: bytesText,
    increments: binary,
    lines: [{ label: 'Largest node', color: '--accent', value: ({ memoryBytes }) => memoryBytes }],
  },
  {
    title: 'Free disk space',
    pages: ['Health'],
    format: bytesText,
    increments: binary,
    lines: [{ label: 'Fullest node', color: '--accent', value: ({ diskFreeBytes }) => diskFreeBytes }],
  },
]

/** All charts of the overview. Each title links to a page with details. */
export function Charts({ timeline }: { timeline: Timeline }) {
  return (
    <div className="charts">
      {charts.map((shown) => (
        <section key={shown.title} className="card stack tight">
          <h2>
            <PageLink pages={shown.pages}>{shown.title}</PageLink>
          </h2>
          <div className="chart">
            <Suspense>
              <Lines shown={shown} timeline={timeline} />
            </Suspense>
          </div>
        </section>
      ))}
    </div>
  )
}

function Lines({ shown: { title, lines, ...axis }, timeline }: { shown: Shown; timeline: Timeline }) {
  const series = lines.map(
    ({ label, color, value }): Series => ({
      label,
      color,
      values: timeline.points.map((point) => (point === null ? null : value(point))),
    }),
  )
  const latest = series.map(({ label, values }) => {
    const last = values.findLast((value) => value !== null)
    return `${label} ${last === undefined || last === null ? 'unknown' : axis.format(last)}`
  })
  return <Chart label={`${title}: ${latest.join(', ')}`} times={timeline.times} series={series} {...axis} />
}

/** A link to the first of these pages that the user may see; plain text if there is none. */
export function PageLink({ pages, children }: { pages: readonly string[]; children: ReactNode }) {
  const { may } = useSession()
  const entries = visible(may).flatMap((group) => group.entries)
  const to = pages.map((page) => entries.find(({ title }) => title === page)?.to).find((path) => path !== undefined)
  return to === undefined ? children : <Link to={to}>{children}</Link>
}
