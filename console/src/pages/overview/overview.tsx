import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { unwrap, useApi } from '../../api/client.ts'
import { visible } from '../../navigation.ts'
import { useSession } from '../../session/session.ts'
import { bytesText, countText, durationText, percentText, Time } from '../../ui/format.tsx'
import { Badge, Page, Section } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import { FindRequest } from '../traffic/find-request.tsx'
import { Charts, PageLink, rateText } from './charts.tsx'
import { type Point, perSecond, type Range, ranges, responsesOf, timelineOf, useHistory } from './history.ts'

const route = getRouteApi('/')

/** The first page: what the service does, for administrators; for others, every page that they may see. */
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
      <Loaded query={history}>
        {(points) => {
          const latest = points.at(-1)
          if (latest === undefined) return <NoSamples />
          return (
            <>
              <Tiles latest={latest} points={points} />
              <Charts timeline={timelineOf(points, ranges[range].step)} />
            </>
          )
        }}
      </Loaded>
      <Nodes />
    </Page>
  )
}

const NoSamples = () => (
  <Empty title="There are no samples yet">
    <p>Each node stores a sample every 15 seconds.</p>
  </Empty>
)

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
}

/** The latest values; counts of errors are those of the whole range. */
function Tiles({ latest, points }: { latest: Point; points: readonly Point[] }) {
  const sum = (of: (point: Point) => number) => points.reduce((total, point) => total + of(point), 0)
  const all = sum(responsesOf)
  const errors = sum(({ serverErrors }) => serverErrors)
  const orDash = (value: number | null, format: (value: number) => string) => (value === null ? '–' : format(value))
  const tiles: TileProps[] = [
    {
      ...{ title: 'Requests', pages: ['Traffic'], value: rateText(perSecond(responsesOf(latest), latest)) },
      note: `${countText(errors)} of ${countText(all)} failed (5xx${all === 0 ? '' : `, ${percentText(errors / all)}`})`,
    },
    {
      ...{ title: 'Latency', pages: ['Requests', 'Traffic'], value: orDash(latest.p99Ms, durationText) },
      note: `p99; half within ${orDash(latest.p50Ms, durationText)}`,
    },
    {
      ...{ title: 'Refused by limits', pages: ['Traffic'], value: rateText(perSecond(latest.limited, latest)) },
      note: `${countText(sum(({ limited }) => limited))} in this range`,
    },
    {
      ...{ title: 'Waiting jobs', pages: ['Reports', 'Health'], value: orDash(latest.jobsWaiting, countText) },
      note: `the oldest for ${orDash(latest.oldestJobMs, durationText)}`,
    },
    {
      ...{ title: 'Waiting deliveries', pages: ['Webhooks'], value: orDash(latest.deliveriesWaiting, countText) },
      note: `${countText(sum(({ deliveryFailures }) => deliveryFailures))} failed calls in this range`,
    },
    {
      ...{ title: 'Event loop delay', pages: ['Nodes', 'Health'], value: durationText(latest.loopDelayMs) },
      note: 'p99 of the slowest node',
    },
    {
      ...{ title: 'Memory', pages: ['Nodes', 'Health'], value: bytesText(latest.memoryBytes) },
      note: 'of the largest node',
    },
    {
      ...{ title: 'Free disk space', pages: ['Storage', 'Health'], value: orDash(latest.diskFreeBytes, bytesText) },
      note: 'of the fullest node',
    },
  ]
  return (
    <div className="tiles">
      {tiles.map(({ title, pages, value, note }) => (
        <div key={title} className="card tile">
          <h2>
            <PageLink pages={pages}>{title}</PageLink>
          </h2>
          <strong>{value}</strong>
          <span className="quiet small">{note}</span>
        </div>
      ))}
    </div>
  )
}

const nodesPollMs = 30_000

function Nodes() {
  const api = useApi()
  const nodes = useQuery({
    queryKey: ['nodes'],
    refetchInterval: nodesPollMs,
    queryFn: () => unwrap(api.GET('/api/nodes')),
  })
  return (
    <Section title="Nodes">
      <Loaded query={nodes}>
        {(rows) => (
          <Table
            label="Nodes"
            rows={rows}
            keyOf={({ id }) => id}
            columns={[
              { title: 'Host', cell: ({ hostname, pid }) => `${hostname} (${pid})` },
              {
                title: 'Status',
                cell: ({ status }) => <Badge tone={status === 'live' ? 'good' : 'wrong'}>{status}</Badge>,
              },
              { title: 'Release', cell: ({ version }) => version },
              { title: 'Roles', cell: ({ roles }) => roles.join(', ') },
              { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} isRelative /> },
              { title: 'Last heartbeat', cell: ({ heartbeatAt }) => <Time at={heartbeatAt} isRelative /> },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}
