import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useAttempt } from '../../api/attempt.ts'
import { unwrap, useApi } from '../../api/client.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { SecretOnce } from '../../ui/copy.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty, ErrorNotice } from '../../ui/states.tsx'
import { headersOf, noSettings, SettingsFields } from './settings.tsx'

/** The form that registers a webhook. Afterwards, shows the new secret. */
export function Register() {
  const { may } = useSession()
  const api = useApi()
  const queries = useQueryClient()
  const attempt = useAttempt()
  const [settings, setSettings] = useState(noSettings)
  const creating = useMutation({
    mutationFn: () => {
      const { event, callbackUrl, description, payloadStyle, version, headers } = settings
      const body = {
        ...{ event, callbackUrl, payloadStyle },
        ...(description !== '' && { description }),
        ...(version !== '' && { version }),
        ...(headers.length > 0 && { headers: headersOf(headers) }),
      }
      return attempt(body, (key) =>
        unwrap(api.POST('/api/webhooks', { params: { header: { 'Idempotency-Key': key } }, body: body as never })),
      )
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ['webhooks'] }),
  })
  if (!may('webhooks:write')) return <Empty title="You may not register webhooks" />
  if (creating.data !== undefined)
    return (
      <Page title="Webhook registered" about={creating.data.callbackUrl}>
        <SecretOnce label="Secret that signs the deliveries" secret={creating.data.secret} />
        <div className="row">
          <Link to="/webhooks/$id" params={{ id: creating.data.id }} className="button primary">
            Go to the webhook
          </Link>
        </div>
      </Page>
    )
  return (
    <Page title="Register a webhook" about="It receives the events that you may read, and belongs to you.">
      <form
        className="card form"
        onSubmit={(event) => {
          event.preventDefault()
          creating.mutate()
        }}
      >
        <SettingsFields settings={settings} onChange={setSettings} error={creating.error} />
        <ErrorNotice error={creating.error} />
        <div className="row">
          <Button type="submit" look="primary" isDisabled={creating.isPending}>
            Register
          </Button>
          <Link to="/webhooks" className="button">
            Cancel
          </Link>
        </div>
      </form>
    </Page>
  )
}
