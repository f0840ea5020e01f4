import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useAttempt } from '../../api/attempt.ts'
import { unwrap, useApi } from '../../api/client.ts'
import { SecretOnce } from '../../ui/copy.tsx'
import { fieldError, SelectField, TextField } from '../../ui/fields.tsx'
import { Facts, Page } from '../../ui/page.tsx'
import { bodyOf, ClientForm, draftOf } from './client-form.tsx'

type Kind = 'confidential' | 'public'

const kinds = [
  { value: 'confidential', label: 'Confidential: a server that can keep a secret' },
  { value: 'public', label: 'Public: an app or a page in a browser, without a secret' },
] as const

/** Registers a client, and shows its secret once. */
export function NewClient() {
  const api = useApi()
  const queries = useQueryClient()
  const attempt = useAttempt()
  const [type, setType] = useState<Kind>('confidential')
  const [id, setId] = useState('')
  const [draft, setDraft] = useState(() => draftOf())
  const creation = useMutation({
    mutationFn: () => {
      const body = { ...bodyOf(draft), type, ...(id.trim() !== '' && { id: id.trim() }) }
      return attempt(body, (key) =>
        unwrap(api.POST('/api/clients', { params: { header: { 'Idempotency-Key': key } }, body })),
      )
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ['clients'] }),
  })
  const chooseType = (chosen: Kind) => {
    setType(chosen)
    // A public client cannot use `client_credentials`, the default grant of confidential clients.
    setDraft({ ...draft, grants: chosen === 'public' ? ['authorization_code', 'refresh_token'] : draftOf().grants })
  }
  const created = creation.data
  if (created !== undefined) return <Created id={created.id} name={created.name} secret={created.secret ?? null} />
  return (
    <Page title="New client" about="An application or a machine that gets access tokens.">
      <ClientForm
        {...{ draft, onChange: setDraft }}
        isPublic={type === 'public'}
        action="Create client"
        error={creation.error}
        isRunning={creation.isPending}
        onSubmit={() => creation.mutate()}
      >
        <SelectField
          label="Kind"
          value={type}
          onChange={chooseType}
          options={kinds}
          hint="It cannot be changed later"
        />
        <TextField
          label="Client id"
          value={id}
          onChange={setId}
          hint="Generated if it is empty"
          error={fieldError(creation.error, 'id')}
        />
      </ClientForm>
    </Page>
  )
}

function Created({ id, name, secret }: { id: string; name: string; secret: string | null }) {
  return (
    <Page title={`${name} was registered`}>
      <div className="card stack">
        <Facts of={[['Client id', <code key="id">{id}</code>]]} />
        {secret === null ? <p>A public client has no secret.</p> : <SecretOnce label="Client secret" secret={secret} />}
        <div className="row">
          <Link to="/access/clients/$clientId" params={{ clientId: id }} className="button primary">
            Go to the client
          </Link>
          <Link to="/access/clients" className="button">
            All clients
          </Link>
        </div>
      </div>
    </Page>
  )
}
