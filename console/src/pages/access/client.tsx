import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { type Api, type Tagged, unwrap, unwrapTagged, useApi } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Conflict } from '../../ui/conflict.tsx'
import { SecretOnce } from '../../ui/copy.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { changes, useEdit } from '../../ui/edit.ts'
import { agoText, Time } from '../../ui/format.tsx'
import { Facts, Page, Section } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import type { Client } from './access-types.ts'
import { bodyOf, type ClientDraft, ClientForm, draftOf } from './client-form.tsx'

const readClient = (api: Api, id: string) => unwrapTagged(api.GET('/api/clients/{id}', { params: { path: { id } } }))

/** One client: its settings, and actions that rotate its secret or revoke it. */
export function ClientPage() {
  const { clientId } = useParams({ strict: false }) as { clientId: string }
  const api = useApi()
  const query = useQuery({ queryKey: ['clients', clientId], queryFn: () => readClient(api, clientId) })
  return (
    <Page title={query.data?.row.name ?? 'Client'} about={<Link to="/access/clients">All clients</Link>}>
      <Loaded query={query}>
        {(read) => (
          <>
            <Summary client={read.row} />
            <Section title="Settings">
              <Settings key={clientId} loaded={read} />
            </Section>
            <Endings loaded={read} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Summary({ client }: { client: Client }) {
  return (
    <div className="card">
      <Facts
        of={[
          ['Client id', <code key="id">{client.id}</code>],
          ['Kind', client.type === 'public' ? 'Public: without a secret' : 'Confidential: with a secret'],
          ['Last used', client.lastUsedAt ? <Time key="used" at={client.lastUsedAt} isRelative /> : 'Never'],
          ['Created', <Time key="created" at={client.createdAt} />],
          ['Changed', <Time key="changed" at={client.updatedAt} />],
        ]}
      />
    </div>
  )
}

const yesOrNo = (value: boolean) => (value ? 'yes' : 'no')
const textsOf = (draft: ClientDraft) => ({
  ...{ Name: draft.name, Scopes: draft.scopes.toSorted().join(' '), Grants: draft.grants.toSorted().join(' ') },
  ...{ 'Redirect URIs': draft.redirectUris, 'Post-logout redirect URIs': draft.postLogoutRedirectUris },
  ...{ 'First party': yesOrNo(draft.firstParty), 'May receive passwords': yesOrNo(draft.trusted) },
  'May introspect the tokens of other clients': yesOrNo(draft.introspectsOthers),
  Labels: draft.labels.map(({ key, value }) => `${key}: ${value}`).join(', '),
})

/** Returns a merge patch with the changed settings; removed labels become null. */
function patchOf(before: ClientDraft, after: ClientDraft) {
  const [old, now] = [bodyOf(before), bodyOf(after)]
  const { labels, ...settings } = changes(old, now)
  const removed = Object.keys(old.labels).filter((key) => !(key in now.labels))
  const nulls = Object.fromEntries(removed.map((key) => [key, null]))
  return { ...settings, ...(labels && { labels: { ...nulls, ...labels } }) }
}

function Settings({ loaded }: { loaded: Tagged<Client> }) {
  const api = useApi()
  const queries = useQueryClient()
  const { id, type } = loaded.row
  const edit = useEdit({
    ...{ loaded, draftOf: (row: Client) => draftOf(row), textsOf, patchOf, read: () => readClient(api, id) },
    send: (body, etag) =>
      unwrapTagged(api.PATCH('/api/clients/{id}', { params: { path: { id }, header: { 'If-Match': etag } }, body })),
    onDone: (_, isSaved) => {
      toast(isSaved ? 'Saved' : 'Nothing was saved')
      void queries.invalidateQueries({ queryKey: ['clients'] })
    },
  })
  return (
    <>
      <ClientForm
        {...{ draft: edit.draft, onChange: edit.setDraft, action: 'Save' }}
        isPublic={type === 'public'}
        error={edit.error}
        isRunning={edit.isRunning}
        onSubmit={edit.save}
      />
      {edit.conflict && <Conflict {...edit.conflict} />}
    </>
  )
}

/** Returns functions that rotate the secret and revoke the client, and the new secret after a rotation. */
function useEndings({ row: client, etag }: Tagged<Client>) {
  const api = useApi()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [secret, setSecret] = useState<string | null>(null)
  const params = { path: { id: client.id }, header: { 'If-Match': etag } }
  const rotate = async () => {
    const rotated = await unwrap(api.POST('/api/clients/{id}/rotate-secret', { params }))
    setSecret(rotated.secret ?? null)
    await queries.invalidateQueries({ queryKey: ['clients'] })
  }
  const revoke = async () => {
    await unwrap(api.DELETE('/api/clients/{id}', { params }))
    toast(`${client.name} revoked`)
    // Drop the cached lists, which still contain the client.
    queries.removeQueries({ queryKey: ['clients'], type: 'inactive' })
    await navigate({ to: '/access/clients' })
    queries.removeQueries({ queryKey: ['clients', client.id] })
  }
  return { secret, rotate, revoke }
}

/** Rotates the secret or revokes the client, after a confirmation that states the consequences. */
function Endings({ loaded }: { loaded: Tagged<Client> }) {
  const { row: client } = loaded
  const { secret, rotate, revoke } = useEndings(loaded)
  const [asked, setAsked] = useState<'rotate' | 'revoke' | null>(null)
  return (
    <Section title="Secret and access">
      <div className="card stack">
        {secret !== null && <SecretOnce label="New client secret" secret={secret} />}
        <div className="row">
          {client.type === 'confidential' && <Button onPress={() => setAsked('rotate')}>Rotate the secret</Button>}
          <Button look="danger" onPress={() => setAsked('revoke')}>
            Revoke the client
          </Button>
        </div>
      </div>
      <Confirm
        title="Rotate the secret?"
        action="Rotate the secret"
        isDangerous
        isOpen={asked === 'rotate'}
        onClose={() => setAsked(null)}
        onConfirm={rotate}
      >
        <p>
          The old secret of {client.name} stops working at once: the client gets no more tokens until it has the new
          secret. Tokens that it already has stay valid until they expire.
        </p>
      </Confirm>
      <Confirm
        title={`Revoke ${client.name}?`}
        action="Revoke the client"
        isDangerous
        isOpen={asked === 'revoke'}
        onClose={() => setAsked(null)}
        onConfirm={revoke}
      >
        <p>
          {client.lastUsedAt ? `It was last used ${agoText(client.lastUsedAt)}.` : 'It was never used.'} This cannot be
          undone, and its id <code>{client.id}</code> cannot be used again. What stops:
        </p>
        <ul>
          <li>It gets no more tokens.</li>
          <li>All of its tokens get 401, also those on behalf of users.</li>
          <li>Its webhooks get no more events that need a scope.</li>
        </ul>
      </Confirm>
    </Section>
  )
}
