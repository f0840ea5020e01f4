import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import type { paths } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { countText, percentText, Time } from '../../ui/format.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { UsageBar } from '../../ui/usage-bar.tsx'
import { FindRequest } from './find-request.tsx'
import { type Limited, LimitsDialog } from './limits-dialog.tsx'
import { type Kind, kinds, type RequestFilter, type Window, windows } from './route.ts'

type View = paths['/api/traffic']['get']['responses'][200]['content']['application/json']
type Row = View['busiest'][number]

const route = getRouteApi('/traffic')
const titles: Record<Kind, string> = { client: 'Clients', subject: 'Users', address: 'Addresses' }
const windowTitles: Record<Window, string> = { minute: 'Last minute', hour: 'Last hour', day: 'Last day' }
const pollMs = 15_000

/** Traffic by client, user or address: the number of requests, their outcomes, and the limits. */
export function Traffic() {
  const { by = 'client', window = 'hour' } = route.useSearch()
  const [limited, setLimited] = useState<Limited | null>(null)
  return (
    <Page
      title="Traffic"
      about="The busiest clients, users and addresses of all nodes, and their limits."
      actions={
        <>
          <Link to="/access/api-keys" className="button">
            Limits of API keys
          </Link>
          <Link to="/requests" className="button">
            Recent requests
          </Link>
        </>
      }
    >
      <FindRequest />
      <nav className="tabs" aria-label="Traffic by">
        {kinds.map((kind) => (
          <Link key={kind} to="/traffic" search={{ by: kind, window }} aria-current={kind === by ? 'page' : undefined}>
            {titles[kind]}
          </Link>
        ))}
      </nav>
      <nav className="row" aria-label="Window">
        {windows.map((one) => (
          <Link
            key={one}
            to="/traffic"
            search={{ by, window: one }}
            className={one === window ? 'button compact primary' : 'button compact'}
            aria-current={one === window ? 'page' : undefined}
          >
            {windowTitles[one]}
          </Link>
        ))}
      </nav>
      <Busiest by={by} window={window} onLimits={setLimited} />
      {limited !== null && <LimitsDialog of={limited} onClose={() => setLimited(null)} />}
    </Page>
  )
}

interface BusiestProps {
  by: Kind
  window: Window
  onLimits: (of: Limited) => void
}

function Busiest({ by, window, onLimits }: BusiestProps) {
  const api = useApi()
  const traffic = useQuery({
    queryKey: ['traffic', by, window],
    refetchInterval: pollMs,
    queryFn: () => unwrap(api.GET('/api/traffic', { params: { query: { by, window } } })),
  })
  return (
    <Loaded query={traffic}>
      {({ busiest, others, total, from, to }) => (
        <>
          <p className="quiet small">
            {countText(total.requests)} requests from <Time at={from} /> to <Time at={to} />
          </p>
          {busiest.length === 0 ? (
            <Empty title="No requests">
              <p>Requests of a minute are shown once it has ended.</p>
            </Empty>
          ) : (
            <Table
              label={titles[by]}
              keyOf={({ key }) => key ?? '-'}
              rows={others.requests === 0 ? busiest : [...busiest, { key: 'all others', ...others }]}
              columns={columnsOf(by, total.requests, onLimits)}
            />
          )}
        </>
      )}
    </Loaded>
  )
}

const filterNames = { client: 'clientId', subject: 'subject', address: 'address' } as const
const anonymous = {
  client: 'Without a valid token',
  subject: 'Without a user: machine clients and requests without a token',
  address: 'Unknown',
} as const

function columnsOf(by: Kind, all: number, onLimits: (of: Limited) => void): Column<Row>[] {
  // The list of requests can be filtered by a single address, but not by a network.
  const isOne = ({ key }: Row) => key !== null && key !== 'all others' && !key.endsWith('/64')
  const count = (title: string, read: (row: Row) => number, isBad = false): Column<Row> => ({
    ...{ title, isNumber: true },
    cell: (row) => (
      <span className={read(row) === 0 ? 'quiet' : isBad ? 'bad' : undefined}>{countText(read(row))}</span>
    ),
  })
  const filterOf = ({ key }: Row): RequestFilter => ({ [filterNames[by]]: key ?? '' })
  return [
    {
      title: titles[by].replace(/e?s$/, ''),
      cell: (row) => (
        <div className="wide-cell">
          {isOne(row) ? (
            <Link to="/requests" search={filterOf(row)}>
              {row.name ?? row.key}
            </Link>
          ) : (
            (row.key ?? anonymous[by])
          )}
          {row.name !== undefined && <code className="quiet">{row.key}</code>}
        </div>
      ),
    },
    count('Requests', ({ requests }) => requests),
    { title: 'Share', cell: ({ requests }) => <Share share={requests / Math.max(1, all)} /> },
    count('Succeeded', ({ succeeded }) => succeeded),
    count('4xx', ({ clientErrors }) => clientErrors),
    count('429', ({ limited }) => limited, true),
    count('5xx', ({ serverErrors }) => serverErrors, true),
    ...(by === 'client' ? [limitsColumn(isOne, onLimits)] : []),
  ]
}

const limitsColumn = (isOne: (row: Row) => boolean, onLimits: (of: Limited) => void): Column<Row> => ({
  title: 'Limits',
  cell: (row) =>
    isOne(row) && (
      <Button isCompact onPress={() => onLimits({ id: row.key ?? '', name: row.name ?? row.key ?? '' })}>
        Limits<span className="visually-hidden"> of {row.name ?? row.key}</span>
      </Button>
    ),
})

const Share = ({ share }: { share: number }) => (
  <div className="share">
    <UsageBar share={share} />
    <span className="small">{percentText(share)}</span>
  </div>
)
