import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { unwrapWithHeaders, useApi } from '../../api/client.ts'
import { Paged } from '../../api/pages.tsx'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { useDelayedText } from '../../ui/delayed-text.ts'
import { SelectField, TextField } from '../../ui/fields.tsx'
import { Time } from '../../ui/format.tsx'
import { Badge, Page } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { type AccountItem, accountStatuses, statusLooks, type UserFilter } from './access-types.ts'
import { NewUser } from './invite.tsx'

const columns: Column<AccountItem>[] = [
  {
    title: 'User',
    cell: ({ id, name, email }) => (
      <>
        <Link to="/access/users/$userId" params={{ userId: String(id) }}>
          {name}
        </Link>
        <div className="quiet small">{email}</div>
      </>
    ),
  },
  { title: 'Status', cell: ({ status }) => <Badge tone={statusLooks[status].tone}>{statusLooks[status].text}</Badge> },
  { title: 'Role', cell: ({ role }) => (role === 'admin' ? 'Administrator' : role === 'user' ? 'User' : '–') },
  { title: 'Last sign-in', cell: ({ lastLoginAt }) => <Time at={lastLoginAt} isRelative /> },
]

/** The list of users and their accounts. The search text and the filters are in the URL. */
export function Users() {
  const api = useApi()
  const { may } = useSession()
  const filter = useSearch({ strict: false }) as UserFilter
  const [isAdding, setAdding] = useState(false)
  return (
    <Page
      title="Users"
      about="Who can sign in, with which role, from where, and to what."
      actions={
        may('users:write') && (
          <Button look="primary" onPress={() => setAdding(true)}>
            Invite a user
          </Button>
        )
      }
    >
      <Filters filter={filter} />
      <Paged
        queryKey={['accounts', filter]}
        read={(cursor) => unwrapWithHeaders(api.GET('/api/users', { params: { query: { ...filter, cursor } } }))}
      >
        {(accounts) =>
          accounts.length === 0 ? (
            <Empty title={Object.values(filter).some(Boolean) ? 'No user matches' : 'There are no users'} />
          ) : (
            <Table label="Users" columns={columns} rows={accounts} keyOf={({ id }) => id} />
          )
        }
      </Paged>
      {isAdding && <NewUser onClose={() => setAdding(false)} />}
    </Page>
  )
}

function Filters({ filter }: { filter: UserFilter }) {
  const navigate = useNavigate()
  const [text, setText] = useDelayedText(
    filter.q ?? '',
    (q) => void navigate({ to: '/access/users', search: { ...filter, q: q || undefined }, replace: true }),
  )
  const set = (change: UserFilter) => void navigate({ to: '/access/users', search: { ...filter, ...change } })
  return (
    <search className="grid">
      <TextField
        label="Name or e-mail address"
        type="search"
        value={text}
        onChange={(value) => setText(value.slice(0, 100))}
      />
      <SelectField
        label="Status"
        value={filter.status ?? ''}
        onChange={(value) => set({ status: value === '' ? undefined : value })}
        options={[
          { value: '', label: 'Any' },
          ...accountStatuses.map((status) => ({ value: status, label: statusLooks[status].text })),
        ]}
      />
      <SelectField
        label="Role"
        value={filter.role ?? ''}
        onChange={(value) => set({ role: value === '' ? undefined : value })}
        options={[
          { value: '', label: 'Any' },
          { value: 'admin', label: 'Administrator' },
          { value: 'user', label: 'User' },
        ]}
      />
    </search>
  )
}
