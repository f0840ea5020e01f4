import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useAttempt } from '../../api/attempt.ts'
import { unwrap, unwrapWithHeaders, useApi } from '../../api/client.ts'
import { Paged } from '../../api/pages.tsx'
import { Button } from '../../ui/button.tsx'
import { SecretOnce } from '../../ui/copy.tsx'
import { Confirm, Dialog } from '../../ui/dialog.tsx'
import { agoText, countText, Time } from '../../ui/format.tsx'
import { Badge, Page } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import type { ApiKey, CreatedApiKey } from './access-types.ts'
import { EditKey, rateText, readKey } from './api-key-edit.tsx'
import { ApiKeyForm, bodyOf, draftOf } from './api-key-form.tsx'

type Open = { what: 'create' } | { what: 'edit' | 'revoke'; key: ApiKey } | null

/** The API keys that are not revoked. */
export function ApiKeys() {
  const api = useApi()
  const [open, setOpen] = useState<Open>(null)
  const [created, setCreated] = useState<CreatedApiKey | null>(null)
  const close = () => setOpen(null)
  return (
    <Page
      title="API keys"
      about="A key determines whose limits a request counts against. It grants no access: a request still needs an access token."
      actions={
        <Button look="primary" onPress={() => setOpen({ what: 'create' })}>
          New API key
        </Button>
      }
    >
      {created !== null && <Created created={created} onDone={() => setCreated(null)} />}
      <Paged
        queryKey={['api-keys']}
        read={(cursor) => unwrapWithHeaders(api.GET('/api/keys', { params: { query: { cursor } } }))}
      >
        {(keys) =>
          keys.length === 0 ? (
            <Empty title="There are no API keys" />
          ) : (
            <Table label="API keys" columns={columnsOf(setOpen)} rows={keys} keyOf={({ id }) => id} />
          )
        }
      </Paged>
      {open?.what === 'create' && <CreateKey onClose={close} onCreated={setCreated} />}
      {open?.what === 'edit' && <EditKey apiKey={open.key} onClose={close} />}
      {open?.what === 'revoke' && <RevokeKey apiKey={open.key} onClose={close} />}
    </Page>
  )
}

const columnsOf = (open: (next: Open) => void): Column<ApiKey>[] => [
  {
    title: 'API key',
    cell: ({ name, hint }) => (
      <>
        {name}
        <div className="quiet small mono">{hint}…</div>
      </>
    ),
  },
  { title: 'Rate', cell: ({ rate }) => rateText(rate) },
  { title: 'Quota per month', cell: ({ quota }) => (quota === null ? 'Default' : countText(quota)), isNumber: true },
  { title: 'Expires', cell: ({ expiresAt }) => <Expiry at={expiresAt} /> },
  { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} isRelative /> : 'Never') },
  {
    title: 'Actions',
    cell: (key) => (
      <div className="row">
        <Button isCompact aria-label={`Edit ${key.name}`} onPress={() => open({ what: 'edit', key })}>
          Edit
        </Button>
        <Button isCompact look="danger" aria-label={`Revoke ${key.name}`} onPress={() => open({ what: 'revoke', key })}>
          Revoke
        </Button>
      </div>
    ),
  },
]

function Expiry({ at }: { at: string | null }) {
  if (at === null) return <>Never</>
  return Date.parse(at) < Date.now() ? <Badge tone="wrong">Expired</Badge> : <Time at={at} isRelative />
}

function CreateKey({ onClose, onCreated }: { onClose: () => void; onCreated: (created: CreatedApiKey) => void }) {
  const api = useApi()
  const queries = useQueryClient()
  const attempt = useAttempt()
  const [draft, setDraft] = useState(() => draftOf())
  const creation = useMutation({
    mutationFn: async () => {
      const body = bodyOf(draft)
      const create = (key: string) =>
        unwrap(api.POST('/api/keys', { params: { header: { 'Idempotency-Key': key } }, body }))
      onCreated(await attempt(body, create))
      onClose()
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ['api-keys'] }),
  })
  return (
    <Dialog title="New API key" isOpen onClose={onClose}>
      <ApiKeyForm
        {...{ draft, onChange: setDraft, action: 'Create API key' }}
        error={creation.error}
        isRunning={creation.isPending}
        onSubmit={() => creation.mutate()}
      />
    </Dialog>
  )
}

/** Shows the new key on the page instead of in the dialog, which closes when the user clicks outside it. */
function Created({ created, onDone }: { created: CreatedApiKey; onDone: () => void }) {
  return (
    <section className="card stack" aria-label="New API key">
      <h2>{created.name} was created</h2>
      <SecretOnce label="API key" secret={created.key} />
      <p className="small quiet">Clients send it in the header X-API-Key.</p>
      <div className="row">
        <Button onPress={onDone}>Done</Button>
      </div>
    </section>
  )
}

function RevokeKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const api = useApi()
  const queries = useQueryClient()
  const revoke = async () => {
    const { etag } = await readKey(api, apiKey.id)
    const params = { path: { id: apiKey.id }, header: { 'If-Match': etag } }
    await unwrap(api.DELETE('/api/keys/{id}', { params }))
    toast(`${apiKey.name} revoked`)
    await queries.invalidateQueries({ queryKey: ['api-keys'] })
  }
  return (
    <Confirm
      title={`Revoke ${apiKey.name}?`}
      action="Revoke the key"
      isDangerous
      isOpen
      onClose={onClose}
      onConfirm={revoke}
    >
      <p>
        {apiKey.lastUsedAt ? `It was last used ${agoText(apiKey.lastUsedAt)}.` : 'It was never used.'} This cannot be
        undone. Within 30 seconds, requests with the key count against the default limits of their client instead of its
        own rate and quota. They are not rejected.
      </p>
    </Confirm>
  )
}
