import { Link } from '@tanstack/react-router'
import { unwrapWithHeaders, useApi } from '../../api/client.ts'
import { Paged } from '../../api/pages.tsx'
import { Time } from '../../ui/format.tsx'
import { Badge, Page } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import type { Client } from './access-types.ts'

const columns: Column<Client>[] = [
  {
    title: 'Client',
    cell: ({ id, name }) => (
      <>
        <Link to="/access/clients/$clientId" params={{ clientId: id }}>
          {name}
        </Link>
        <div className="quiet small mono">{id}</div>
      </>
    ),
  },
  {
    title: 'Kind',
    cell: ({ type, firstParty }) => (
      <div className="row">
        <Badge>{type}</Badge>
        {firstParty && <Badge tone="info">first party</Badge>}
      </div>
    ),
  },
  { title: 'Scopes', cell: ({ scopes }) => <ShortList items={scopes} /> },
  { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} isRelative /> : 'Never') },
  { title: 'Created', cell: ({ createdAt }) => <Time at={createdAt} isRelative /> },
]

const shownScopes = 4

/** Shows the first few scopes, and the number of remaining ones. */
function ShortList({ items }: { items: readonly string[] }) {
  const more = items.length - shownScopes
  return (
    <span className="small" title={items.join(' ')}>
      {items.slice(0, shownScopes).join(' ')}
      {more > 0 && ` and ${more} more`}
    </span>
  )
}

/** The OAuth clients that are not revoked. */
export function Clients() {
  const api = useApi()
  return (
    <Page
      title="Clients"
      about="Applications and machines that get access tokens, each with its own scopes."
      actions={
        <Link to="/access/clients/new" className="button primary">
          New client
        </Link>
      }
    >
      <Paged
        queryKey={['clients']}
        read={(cursor) => unwrapWithHeaders(api.GET('/api/clients', { params: { query: { cursor } } }))}
      >
        {(clients) =>
          clients.length === 0 ? (
            <Empty title="There are no clients" />
          ) : (
            <Table label="Clients" columns={columns} rows={clients} keyOf={({ id }) => id} />
          )
        }
      </Paged>
    </Page>
  )
}
