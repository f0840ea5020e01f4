import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { Time } from '../../ui/format.tsx'
import { Badge, Facts, Page, Section } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { type Account, statusLooks } from './access-types.ts'
import { InviteUser } from './invite.tsx'
import { Grants, Sessions } from './user-access.tsx'

/** One user: the account, the browser sessions, and the clients that have access. */
export function UserPage() {
  const { userId } = useParams({ strict: false }) as { userId: string }
  const api = useApi()
  const id = Number(userId)
  const query = useQuery({
    queryKey: ['accounts', id],
    queryFn: () => unwrap(api.GET('/api/users/{id}/account', { params: { path: { id } } })),
  })
  return (
    <Page title={query.data?.name ?? 'User'} about={<Link to="/access/users">All users</Link>}>
      <Loaded query={query}>
        {(account) => (
          <>
            <AccountCard account={account} />
            <Sessions account={account} />
            <Grants account={account} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

type Asked = 'invite' | 'lock' | 'unlock' | 'role' | null

function AccountCard({ account }: { account: Account }) {
  const [asked, setAsked] = useState<Asked>(null)
  const { role, status, hasPassword } = account
  const close = () => setAsked(null)
  return (
    <Section title="Account">
      <div className="card stack">
        <AccountFacts account={account} />
        <div className="row">
          {status !== 'locked' && (
            <Button onPress={() => setAsked('invite')}>{hasPassword ? 'Reset the password' : 'Invite'}</Button>
          )}
          <Button onPress={() => setAsked('role')}>
            {role === 'admin' ? 'Remove administrator role' : 'Make an administrator'}
          </Button>
          {status === 'locked' ? (
            <Button onPress={() => setAsked('unlock')}>Unlock</Button>
          ) : (
            <Button look="danger" onPress={() => setAsked('lock')}>
              Lock
            </Button>
          )}
        </div>
      </div>
      {asked === 'invite' && <InviteUser account={account} onClose={close} />}
      {asked === 'role' && <ChangeRole account={account} onClose={close} />}
      {(asked === 'lock' || asked === 'unlock') && (
        <ChangeLock account={account} locked={asked === 'lock'} onClose={close} />
      )}
    </Section>
  )
}

function AccountFacts({ account }: { account: Account }) {
  const { status, role, invitationExpiresAt, loginAttempts, loginsBlockedUntil } = account
  const look = statusLooks[status]
  return (
    <Facts
      of={[
        [
          'Status',
          <Badge key="status" tone={look.tone}>
            {look.text}
          </Badge>,
        ],
        ['User id', <code key="id">{account.id}</code>],
        ['E-mail address', account.email],
        ['Role', role === 'admin' ? 'Administrator' : role === 'user' ? 'User' : 'None yet'],
        ['Last sign-in', <Time key="login" at={account.lastLoginAt} isRelative />],
        [
          'Password set',
          account.hasPassword ? <Time key="password" at={account.passwordChangedAt} isRelative /> : 'Never',
        ],
        ...(account.lockedAt ? [['Locked', <Time key="locked" at={account.lockedAt} />] as const] : []),
        ...(invitationExpiresAt
          ? [['Invitation expires', <Time key="expiry" at={invitationExpiresAt} isRelative />] as const]
          : []),
        ['Password attempts in this hour', loginAttempts],
        ...(loginsBlockedUntil
          ? [['Sign-ins refused until', <Time key="blocked" at={loginsBlockedUntil} />] as const]
          : []),
      ]}
    />
  )
}

interface ChangeProps {
  account: Account
  onClose: () => void
}

/** Returns a function that changes an account and shows the new state. */
function useAccountChange({ id }: Account) {
  const api = useApi()
  const queries = useQueryClient()
  return async (body: { role?: 'user' | 'admin'; locked?: boolean }, done: string) => {
    const changed = await unwrap(api.PATCH('/api/users/{id}/account', { params: { path: { id } }, body }))
    queries.setQueryData(['accounts', id], changed)
    toast(done)
    await queries.invalidateQueries({ queryKey: ['accounts'] })
  }
}

const own = 'This is your own account: you will be signed out.'

function ChangeLock({ account, locked, onClose }: ChangeProps & { locked: boolean }) {
  const change = useAccountChange(account)
  const isOwn = useSession().person.id === String(account.id)
  const { name } = account
  return (
    <Confirm
      title={locked ? `Lock ${name}?` : `Unlock ${name}?`}
      action={locked ? 'Lock the account' : 'Unlock the account'}
      isDangerous={locked}
      isOpen
      onClose={onClose}
      onConfirm={() => change({ locked }, `${name} ${locked ? 'locked' : 'unlocked'}`)}
    >
      {locked ? (
        <>
          <p>What stops:</p>
          <ul>
            <li>{name} cannot sign in any more.</li>
            <li>All sessions end, and every token gets 401.</li>
            <li>An open invitation becomes invalid.</li>
          </ul>
          <p className="quiet small">Webhooks and reports of the user continue. {isOwn && own}</p>
        </>
      ) : (
        <p>{name} can sign in again with the same password. Sessions and tokens are not restored.</p>
      )}
    </Confirm>
  )
}

function ChangeRole({ account, onClose }: ChangeProps) {
  const change = useAccountChange(account)
  const isOwn = useSession().person.id === String(account.id)
  const role = account.role === 'admin' ? 'user' : 'admin'
  return (
    <Confirm
      title={
        role === 'admin'
          ? `Make ${account.name} an administrator?`
          : `Remove the administrator role of ${account.name}?`
      }
      action="Change role"
      isDangerous
      isOpen
      onClose={onClose}
      onConfirm={() => change({ role }, 'Role changed')}
    >
      <p>
        {role === 'admin'
          ? 'Administrators may grant every scope to clients, also to this console.'
          : 'Users cannot grant admin, audit:read, users:write and users:read:full.'}{' '}
        All sessions and tokens of {account.name} end; the new role applies after the next sign-in. {isOwn && own}
      </p>
    </Confirm>
  )
}
