import { getRouteApi, Link } from '@tanstack/react-router'
import { visible } from '../../navigation.ts'
import { useSession } from '../../session/session.ts'
import { bytesText, countText, durationText, percentText, Time } from '../../ui/format.tsx'
import { Page, Section } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { NodeList } from '../operations/nodes.tsx'
import { FindRequest } from '../traffic/find-request.tsx'
import { Charts, PageLink, rateText } from './charts.tsx'
import {
  isStale,
  type Known,
  type Point,
  perSecond,
  type Range,
  ranges,
  responsesOf,
  settled,
  timelineOf,
  useHistory,
} from './history.ts'

const route = getRouteApi('/')
const nodesPollMs = 30_000

/**
 * The start page. Administrators see the state of the service; other users see links to all pages that they may open.
 */
export function Overview() {
  const { may } = useSession()
  return may('admin') ? <Operation /> : <Pages />
}

function Pages() {
  const { may } = useSession()
  return (
    <Page title="Overview">
      <div className="grid">
        {visible(may).map(({ title, entries }) => (
          <section key={title} className="card stack tight">
            <h2>{title ?? 'Start'}</h2>
            {entries.map((entry) => (
              <Link key={entry.to} to={entry.to}>
                {entry.title}
              </Link>
            ))}
          </section>
        ))}
      </div>
    </Page>
  )
}

function Operation() {
  const { range = 'hour' } = route.useSearch()
  const history = useHistory(range)
  return (
    <Page title="Overview" about="All nodes together, updated every 15 seconds." actions={<Ranges chosen={range} />}>
      <FindRequest />
      <Loaded query={history}>{(known) => <Metrics known={known} range={range} />}</Loaded>
      <Section title="Nodes">
        <NodeList pollMs={nodesPollMs} />
      </Section>
    </Page>
  )
}

function Metrics({ known, range }: { known: Known; range: Range }) {
  const points = settled(known.points)
  const latest = points.at(-1)
  if (latest === undefined)
    return (
      <Empty title="There are no samples yet">
        <p>Each node stores a sample every 15 seconds. Nothing was stored in this range.</p>
      </Empty>
    )
  return (
    <>
      {isStale(known, ranges[range].step) && (
        <p className="notice warn" role="status">
          No node has stored a sample since <Time at={latest.at} />. What follows is not up to date.
        </p>
      )}
      <Tiles latest={latest} points={points} />
      <Charts timeline={timelineOf(points, known.endMs, ranges[range])} />
    </>
  )
}

function Ranges({ chosen }: { chosen: Range }) {
  return (
    <nav className="tabs" aria-label="Range">
      {(Object.keys(ranges) as Range[]).map((range) => (
        <Link key={range} to="/" search={{ range }} aria-current={range === chosen ? 'page' : undefined} replace>
          {ranges[range].title}
        </Link>
      ))}
    </nav>
  )
}

interface TileProps {
  title: string
  pages: readonly string[]
  value: string
  note: string
  /** Highlights the note as a problem. */
  isBad?: boolean
}

const orDash = (value: number | null, format: (value: number) => string) => (value === null ? '–' : format(value))

/** The latest values, and the number of errors over the whole range. */
function Tiles({ latest, points }: { latest: Point; points: readonly Point[] }) {
  return (
    <div className="tiles">
      {[...trafficTiles(latest, points), ...stateTiles(latest, points)].map(({ title, pages, value, note, isBad }) => (
        <div key={title} className="card tile">
          <h2>
            <PageLink pages={pages}>{title}</PageLink>
          </h2>
          <strong>{value}</strong>
          <span className={isBad ? 'small bad' : 'small quiet'}>{note}</span>
        </div>
      ))}
    </div>
  )
}

const sumOf = (points: readonly Point[], of: (point: Point) => number) =>
  points.reduce((sum, point) => sum + of(point), 0)

function trafficTiles(latest: Point, points: readonly Point[]): TileProps[] {
  const all = sumOf(points, responsesOf)
  const errors = sumOf(points, ({ serverErrors }) => serverErrors)
  const limited = sumOf(points, (point) => point.limited)
  return [
    {
      ...{ title: 'Requests', pages: ['Traffic'], value: rateText(perSecond(responsesOf(latest), latest)) },
      note: `${countText(all)} in this range`,
    },
    {
      ...{ title: 'Failed requests', pages: ['Requests'], value: percentText(all === 0 ? 0 : errors / all) },
      ...{ note: `${countText(errors)} with 5xx in this range`, isBad: errors > 0 },
    },
    {
      ...{ title: 'Latency', pages: ['Requests', 'Traffic'], value: orDash(latest.p99Ms, durationText) },
      note: latest.p50Ms === null ? 'no responses now' : `p99; half within ${durationText(latest.p50Ms)}`,
    },
    {
      ...{ title: 'Rate limited', pages: ['Traffic'], value: rateText(perSecond(latest.limited, latest)) },
      note: `${countText(limited)} with 429 in this range`,
    },
  ]
}

function stateTiles(latest: Point, points: readonly Point[]): TileProps[] {
  const failed = sumOf(points, ({ deliveryFailures }) => deliveryFailures)
  const ageNote = (count: number | null, ms: number | null) =>
    count ? `the oldest due for ${orDash(ms, durationText)}` : 'none is late'
  return [
    {
      ...{ title: 'Waiting jobs', pages: ['Reports', 'Health'], value: orDash(latest.jobsWaiting, countText) },
      note: ageNote(latest.jobsWaiting, latest.oldestJobMs),
    },
    {
      ...{ title: 'Waiting deliveries', pages: ['Webhooks'], value: orDash(latest.deliveriesWaiting, countText) },
      ...{ note: `${countText(failed)} failed calls in this range`, isBad: failed > 0 },
    },
    {
      ...{ title: 'Memory', pages: ['Nodes', 'Health'], value: bytesText(latest.memoryBytes) },
      note: `event loop delay ${durationText(latest.loopDelayMs)}`,
    },
    {
      ...{ title: 'Free disk space', pages: ['Health'], value: orDash(latest.diskFreeBytes, bytesText) },
      note: latest.nodes === 1 ? 'one node' : `the least of ${latest.nodes} nodes`,
    },
  ]
}
