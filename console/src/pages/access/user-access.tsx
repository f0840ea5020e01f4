import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { agoText, Time } from '../../ui/format.tsx'
import { Section } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import type { Account, UserGrant, UserSession } from './access-types.ts'

interface AccessProps {
  account: Account
}

/** Returns a function that shows a message, and reads the user's sessions and grants again. */
function useRefresh({ id }: Account) {
  const queries = useQueryClient()
  return async (done: string) => {
    toast(done)
    await queries.invalidateQueries({ queryKey: ['accounts', id] })
  }
}

/** The user's browser sessions. */
export function Sessions({ account }: AccessProps) {
  const api = useApi()
  const refresh = useRefresh(account)
  const [asked, setAsked] = useState<UserSession | 'all' | null>(null)
  const { id, name } = account
  const query = useQuery({
    queryKey: ['accounts', id, 'sessions'],
    queryFn: () => unwrap(api.GET('/api/users/{id}/sessions', { params: { path: { id } } })),
  })
  const end = async () => {
    if (asked === 'all') await unwrap(api.DELETE('/api/users/{id}/sessions', { params: { path: { id } } }))
    else if (asked !== null) {
      const params = { path: { id, sessionId: asked.id } }
      await unwrap(api.DELETE('/api/users/{id}/sessions/{sessionId}', { params }))
    }
    await refresh(asked === 'all' ? 'All sessions and tokens have ended' : 'The session has ended')
  }
  return (
    <Section
      title="Sessions"
      actions={
        <Button isCompact look="danger" onPress={() => setAsked('all')}>
          End all
        </Button>
      }
    >
      <Loaded query={query}>
        {(sessions) =>
          sessions.length === 0 ? (
            <p className="card quiet">{name} is not signed in anywhere.</p>
          ) : (
            <Table
              label="Sessions"
              columns={sessionColumns(setAsked)}
              rows={sessions}
              keyOf={(session) => session.id}
            />
          )
        }
      </Loaded>
      <Confirm
        title={asked === 'all' ? `End all sessions and tokens of ${name}?` : 'End this session?'}
        action={asked === 'all' ? 'End all sessions and tokens' : 'End the session'}
        isDangerous
        isOpen={asked !== null}
        onClose={() => setAsked(null)}
        onConfirm={end}
      >
        <p>
          {asked === 'all'
            ? 'All sessions end, and every client loses its access on behalf of this user. Consents stay, and the user can sign in again.'
            : 'The browser is signed out, and the tokens that clients got through this sign-in get 401. Other sessions continue.'}
        </p>
      </Confirm>
    </Section>
  )
}

const sessionColumns = (end: (session: UserSession) => void): Column<UserSession>[] => [
  { title: 'Signed in', cell: ({ startedAt }) => <Time at={startedAt} /> },
  { title: 'Last used', cell: ({ lastUsedAt }) => <Time at={lastUsedAt} isRelative /> },
  { title: 'Expires', cell: ({ expiresAt }) => <Time at={expiresAt} isRelative /> },
  {
    title: 'Clients',
    cell: ({ clients }) => (clients.length === 0 ? 'None' : clients.map(({ id, name }) => name ?? id).join(', ')),
  },
  {
    title: 'Actions',
    cell: (session) => (
      <Button
        isCompact
        look="danger"
        aria-label={`End the session that began ${agoText(session.startedAt)}`}
        onPress={() => end(session)}
      >
        End
      </Button>
    ),
  },
]

/** The access that a user has granted to clients, and the consents that the service remembers. */
export function Grants({ account }: AccessProps) {
  const api = useApi()
  const refresh = useRefresh(account)
  const [asked, setAsked] = useState<UserGrant | null>(null)
  const { id, name } = account
  const query = useQuery({
    queryKey: ['accounts', id, 'grants'],
    queryFn: () => unwrap(api.GET('/api/users/{id}/grants', { params: { path: { id } } })),
  })
  const end = async () => {
    if (asked === null) return
    const params = { path: { id, clientId: asked.clientId } }
    await unwrap(api.DELETE('/api/users/{id}/grants/{clientId}', { params }))
    await refresh('The access has ended')
  }
  return (
    <Section title="Access of clients and consents">
      <Loaded query={query}>
        {(grants) =>
          grants.length === 0 ? (
            <p className="card quiet">No client acts on behalf of {name}.</p>
          ) : (
            <Table
              label="Access of clients"
              columns={grantColumns(setAsked)}
              rows={grants}
              keyOf={({ clientId }) => clientId}
            />
          )
        }
      </Loaded>
      <Confirm
        title={`End the access of ${asked?.clientName ?? asked?.clientId ?? 'the client'}?`}
        action="End the access"
        isDangerous
        isOpen={asked !== null}
        onClose={() => setAsked(null)}
        onConfirm={end}
      >
        <p>
          Its tokens on behalf of {name} get 401, and the consent is forgotten: the client must ask again. A first-party
          client gets new tokens without a question while {name} is signed in.
        </p>
      </Confirm>
    </Section>
  )
}

const grantColumns = (end: (grant: UserGrant) => void): Column<UserGrant>[] => [
  {
    title: 'Client',
    cell: ({ clientId, clientName }) =>
      clientName === null ? (
        <code>{clientId}</code>
      ) : (
        <Link to="/access/clients/$clientId" params={{ clientId }}>
          {clientName}
        </Link>
      ),
  },
  { title: 'Scopes', cell: ({ scopes }) => <span className="small">{scopes.join(' ') || 'None'}</span> },
  { title: 'Since', cell: ({ since }) => <Time at={since} isRelative /> },
  { title: 'Last token', cell: ({ lastTokenAt }) => <Time at={lastTokenAt} isRelative /> },
  {
    title: 'Consent',
    cell: ({ consent }) =>
      consent === null ? (
        'None'
      ) : (
        <span title={consent.scopes.join(' ')}>{<Time at={consent.updatedAt} isRelative />}</span>
      ),
  },
  {
    title: 'Actions',
    cell: (grant) => (
      <Button
        isCompact
        look="danger"
        aria-label={`End the access of ${grant.clientName ?? grant.clientId}`}
        onPress={() => end(grant)}
      >
        End
      </Button>
    ),
  },
]
