import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { unwrapWithHeaders, useApi } from '../../api/client.ts'
import { Paged } from '../../api/pages.tsx'
import { useSession } from '../../session/session.ts'
import { useDelayedText } from '../../ui/delayed-text.ts'
import { SelectField, TextField } from '../../ui/fields.tsx'
import { Time } from '../../ui/format.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import {
  latencyText,
  rateText,
  refreshMs,
  Sparkline,
  type Statistics,
  useStatistics,
  type Webhook,
  WebhookOwner,
  WebhookState,
} from './parts.tsx'
import { TryReceiver } from './receiver.tsx'
import { type WebhooksSearch, webhookStates } from './route.ts'

/** The list of webhooks; for administrators, those of all owners. */
export function WebhookList() {
  const { may } = useSession()
  const search = useSearch({ from: '/webhooks' })
  const api = useApi()
  const register = (
    <Link to="/webhooks/new" className="button primary">
      Register a webhook
    </Link>
  )
  return (
    <Page
      title="Webhooks"
      about="Addresses that the service calls when something happens."
      actions={may('webhooks:write') && register}
    >
      <Filters search={search} />
      <Paged
        queryKey={['webhooks', search]}
        read={(cursor) => {
          const { status, owner } = search
          const filters = { ...(status && { status }), ...(owner && { ownerClient: owner }) }
          return unwrapWithHeaders(
            api.GET('/api/webhooks', { params: { query: { limit: 50, ...filters, ...(cursor && { cursor }) } } }),
          )
        }}
        refetchInterval={refreshMs}
      >
        {(rows) =>
          rows.length === 0 ? (
            <Empty title={search.status || search.owner ? 'No webhook matches' : 'There are no webhooks yet'}>
              {may('webhooks:write') && !search.status && !search.owner && register}
            </Empty>
          ) : (
            <List rows={rows} />
          )
        }
      </Paged>
      <TryReceiver />
    </Page>
  )
}

function Filters({ search }: { search: WebhooksSearch }) {
  const { may } = useSession()
  const navigate = useNavigate()
  const set = (more: WebhooksSearch) =>
    void navigate({ to: '/webhooks', search: { ...search, ...more }, replace: true })
  const [owner, setOwner] = useDelayedText(search.owner ?? '', (next) => set({ owner: next || undefined }))
  return (
    <search className="filters">
      <SelectField
        label="State"
        value={search.status ?? ''}
        onChange={(status) => set({ status: status === '' ? undefined : status })}
        options={[{ value: '', label: 'Any' }, ...webhookStates.map((value) => ({ value, label: value }))]}
      />
      {may('admin') && <TextField label="Owner (client id)" value={owner} onChange={setOwner} />}
    </search>
  )
}

function List({ rows }: { rows: readonly Webhook[] }) {
  const { may } = useSession()
  const statistics = useStatistics(rows.map(({ id }) => id)).data
  const of = ({ id }: Webhook): Statistics | undefined => statistics?.get(id)
  const owner: Column<Webhook> = { title: 'Owner', cell: (webhook) => <WebhookOwner of={webhook} /> }
  const columns: Column<Webhook>[] = [
    {
      title: 'Endpoint',
      cell: (webhook) => (
        <>
          <Link to="/webhooks/$id" params={{ id: webhook.id }}>
            {webhook.description ?? URL.parse(webhook.callbackUrl)?.host ?? webhook.callbackUrl}
          </Link>
          <div className="quiet small">{webhook.event}</div>
        </>
      ),
    },
    ...(may('admin') ? [owner] : []),
    { title: 'State', cell: (webhook) => <WebhookState webhook={webhook} statistics={of(webhook)} /> },
    { title: 'Success', isNumber: true, cell: (webhook) => rateText(of(webhook)) },
    { title: 'p95', isNumber: true, cell: (webhook) => latencyText(of(webhook)?.p95Ms) },
    { title: 'Last 24 hours', cell: (webhook) => <Sparkline statistics={of(webhook)} /> },
    { title: 'Registered', cell: ({ createdAt }) => <Time at={createdAt} isRelative /> },
  ]
  return <Table label="Webhooks" columns={columns} rows={rows} keyOf={({ id }) => id} />
}
