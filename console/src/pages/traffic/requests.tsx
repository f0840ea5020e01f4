import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { unwrapWithHeaders, useApi } from '../../api/client.ts'
import { Paged } from '../../api/pages.tsx'
import type { paths } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { SelectField, TextField } from '../../ui/fields.tsx'
import { durationText, Time } from '../../ui/format.tsx'
import { Badge, Page, toneOf } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { FindRequest } from './find-request.tsx'
import type { RequestFilter } from './route.ts'

export type Logged = paths['/api/requests']['get']['responses'][200]['content']['application/json'][number]

const route = getRouteApi('/requests')

/** The requests of the last day, newest first. */
export function Requests() {
  const filter = route.useSearch()
  return (
    <Page
      title="Requests"
      about="The requests of the last 24 hours, newest first. A busy node stores only a part of them."
    >
      <FindRequest />
      <Filters key={JSON.stringify(filter)} filter={filter} />
      <List filter={filter} />
    </Page>
  )
}

const statuses = [
  { value: '', label: 'Any status' },
  { value: '2xx', label: '2xx: succeeded' },
  { value: '3xx', label: '3xx: redirected or not modified' },
  { value: '4xx', label: '4xx: refused' },
  { value: '429', label: '429: above a limit' },
  { value: '5xx', label: '5xx: failed' },
] as const

function Filters({ filter }: { filter: RequestFilter }) {
  const navigate = useNavigate()
  const [wanted, setWanted] = useState({ clientId: '', subject: '', address: '', status: '', ...filter })
  const apply = (next: typeof wanted) => {
    const search = Object.entries(next)
      .map(([name, value]) => [name, value.trim()])
      .filter(([, value]) => value !== '')
    void navigate({ to: '/requests', search: Object.fromEntries(search) })
  }
  const text = (name: keyof RequestFilter, label: string) => (
    <TextField label={label} value={wanted[name]} onChange={(value) => setWanted({ ...wanted, [name]: value })} />
  )
  const submit = (event: FormEvent) => {
    event.preventDefault()
    apply(wanted)
  }
  const known = statuses.some(({ value }) => value === wanted.status)
  const options = known ? statuses : [...statuses, { value: wanted.status, label: wanted.status }]
  return (
    <form className="filters" onSubmit={submit} aria-label="Filters">
      {text('clientId', 'Client id')}
      {text('subject', 'User id')}
      {text('address', 'Address')}
      <SelectField
        label="Status"
        value={wanted.status}
        options={options}
        onChange={(status) => apply({ ...wanted, status })}
      />
      <div className="row">
        <Button type="submit">Filter</Button>
        {Object.keys(filter).length > 0 && (
          <Link to="/requests" search={{}} className="button plain">
            Show all
          </Link>
        )}
      </div>
    </form>
  )
}

const pollMs = 15_000

function List({ filter }: { filter: RequestFilter }) {
  const api = useApi()
  return (
    <Paged
      queryKey={['requests', filter]}
      read={(cursor) =>
        unwrapWithHeaders(api.GET('/api/requests', { params: { query: { ...filter, ...(cursor && { cursor }) } } }))
      }
      refetchInterval={pollMs}
    >
      {(rows) =>
        rows.length === 0 ? (
          <Empty title="No requests were found" />
        ) : (
          <Table label="Requests" rows={rows} keyOf={({ requestId, at }) => `${requestId} ${at}`} columns={columns} />
        )
      }
    </Paged>
  )
}

/** A status code, colored by its class. */
export const StatusBadge = ({ status }: { status: number }) => <Badge tone={toneOf(status)}>{status}</Badge>

const columns: Column<Logged>[] = [
  { title: 'Time', cell: ({ at }) => <Time at={at} isRelative /> },
  {
    title: 'Request',
    cell: ({ requestId, method, path, errorCode }) => (
      <div className="wide-cell">
        <Link to="/requests/$requestId" params={{ requestId }}>
          <code>
            {method} {path}
          </code>
        </Link>
        {errorCode && <code className="quiet">{errorCode}</code>}
      </div>
    ),
  },
  { title: 'Status', cell: ({ status }) => <StatusBadge status={status} /> },
  { title: 'Duration', isNumber: true, cell: ({ durationMs }) => durationText(durationMs) },
  {
    title: 'Client and user',
    cell: ({ clientId, clientName, subject, userName }) => (
      <>
        {clientName ?? clientId ?? '–'}
        {subject && subject !== clientId && <div className="quiet small">{userName ?? `User ${subject}`}</div>}
      </>
    ),
  },
  { title: 'Address', cell: ({ address }) => address ?? '–' },
]
