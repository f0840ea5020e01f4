import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { unwrapWithHeaders, useApi } from '../../api/client.ts'
import { Paged } from '../../api/pages.tsx'
import { SelectField, TextField } from '../../ui/fields.tsx'
import { durationText, Time } from '../../ui/format.tsx'
import { Badge, Section } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { type Delivery, DeliveryState, NextAttempt, refreshMs, useEventTypes, type Webhook } from './parts.tsx'
import { deliveryStates, type WebhookSearch } from './route.ts'

const fastMs = 3_000

/** The deliveries of a webhook, newest first. */
export function Deliveries({ webhook: { id } }: { webhook: Webhook }) {
  const search = useSearch({ from: '/webhooks/$id' })
  const api = useApi()
  const isFiltered = Object.values(search).some((value) => value !== undefined)
  return (
    <Section title="Deliveries">
      <Filters id={id} search={search} />
      <Paged
        queryKey={['deliveries', id, search]}
        read={(cursor) => {
          const { status, event, since, until } = search
          const times = { ...(since && { since: instant(since) }), ...(until && { until: instant(until) }) }
          const filters = { ...(status && { status }), ...(event && { event }), ...times, ...(cursor && { cursor }) }
          return unwrapWithHeaders(
            api.GET('/api/webhooks/{id}/deliveries', { params: { path: { id }, query: { limit: 50, ...filters } } }),
          )
        }}
        refetchInterval={(rows: readonly Delivery[]) => (rows.some(isAboutToChange) ? fastMs : refreshMs)}
      >
        {(rows) => {
          if (rows.length === 0)
            return <Empty title={isFiltered ? 'No delivery matches' : 'Nothing has been sent to this webhook yet'} />
          return <Table label="Deliveries" columns={columnsOf(id)} rows={rows} keyOf={(row) => row.id} />
        }}
      </Paged>
    </Section>
  )
}

const instant = (local: string) => new Date(local).toISOString()
const soonMs = 10_000
const isAboutToChange = ({ status, nextAttemptAt }: Delivery) =>
  status === 'pending' && (nextAttemptAt === undefined || Math.abs(Date.parse(nextAttemptAt) - Date.now()) < soonMs)

const columnsOf = (id: string): Column<Delivery>[] => [
  {
    title: 'Event',
    cell: (delivery) => (
      <>
        <Link to="/webhooks/$id/deliveries/$deliveryId" params={{ id, deliveryId: delivery.id }}>
          {delivery.event}
        </Link>{' '}
        {delivery.test && <Badge tone="info">test</Badge>}
      </>
    ),
  },
  { title: 'State', cell: (delivery) => <DeliveryState delivery={delivery} /> },
  {
    title: 'Last response',
    cell: ({ attempts, reason }) => {
      const last = attempts.at(-1)
      if (last === undefined) return reason ?? '–'
      return last.error ?? String(last.statusCode ?? '–')
    },
  },
  { title: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts.length },
  {
    title: 'Latency',
    isNumber: true,
    cell: ({ attempts }) => {
      const last = attempts.at(-1)
      return last === undefined ? '–' : durationText(last.durationMs)
    },
  },
  { title: 'Created', cell: ({ createdAt }) => <Time at={createdAt} isRelative /> },
  { title: 'Next attempt', cell: ({ nextAttemptAt }) => <NextAttempt at={nextAttemptAt} /> },
]

function Filters({ id, search }: { id: string; search: WebhookSearch }) {
  const { data: types = [] } = useEventTypes()
  const navigate = useNavigate()
  const set = (more: WebhookSearch) =>
    void navigate({
      to: '/webhooks/$id',
      params: { id },
      search: { ...search, ...more },
      replace: true,
      resetScroll: false,
    })
  const names = [...new Set([...types.map(({ event }) => event), ...(search.event ? [search.event] : [])])]
  return (
    <search className="filters">
      <SelectField
        label="State"
        value={search.status ?? ''}
        onChange={(status) => set({ status: status === '' ? undefined : status })}
        options={[{ value: '', label: 'Any' }, ...deliveryStates.map((value) => ({ value, label: value }))]}
      />
      <SelectField
        label="Event"
        value={search.event ?? ''}
        onChange={(event) => set({ event: event || undefined })}
        options={[{ value: '', label: 'Any' }, ...names.map((value) => ({ value, label: value }))]}
      />
      <TextField
        label="From"
        type="datetime-local"
        value={search.since ?? ''}
        onChange={(since) => set({ since: since || undefined })}
      />
      <TextField
        label="Before"
        type="datetime-local"
        value={search.until ?? ''}
        onChange={(until) => set({ until: until || undefined })}
      />
    </search>
  )
}
