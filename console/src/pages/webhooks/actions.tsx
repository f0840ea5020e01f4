import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { SecretOnce } from '../../ui/copy.tsx'
import { Confirm, Dialog } from '../../ui/dialog.tsx'
import { CheckField, SelectField } from '../../ui/fields.tsx'
import { ErrorNotice, messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { Edit } from './edit.tsx'
import { useEventTypes, type Webhook, webhookKey } from './parts.tsx'
import { Replay } from './replay.tsx'

interface Props {
  webhook: Webhook
  etag: string
}

type Patch = components['schemas']['WebhookPatch']
type Open = 'edit' | 'test' | 'rotate' | 'replay' | 'delete' | null

/** Changes a webhook, unless someone else has changed it since it was read. */
function useChange({ webhook: { id }, etag }: Props) {
  const api = useApi()
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (body: Patch) =>
      unwrap(api.PATCH('/api/webhooks/{id}', { params: { path: { id }, header: { 'If-Match': etag } }, body })),
    onSettled: () =>
      Promise.all([
        queries.invalidateQueries({ queryKey: webhookKey(id) }),
        queries.invalidateQueries({ queryKey: ['webhooks'] }),
      ]),
  })
}

/** The actions that the user may take on a webhook. */
export function Actions(props: Props) {
  const { may } = useSession()
  const [open, setOpen] = useState<Open>(null)
  const change = useChange(props)
  if (!may('webhooks:write')) return null
  const { webhook } = props
  const isActive = webhook.status === 'active'
  const close = () => setOpen(null)
  const setStatus = () =>
    change.mutate(
      { status: isActive ? 'paused' : 'active' },
      {
        onSuccess: () => toast(isActive ? 'Paused: nothing is sent until you enable it' : 'Enabled'),
        onError: (error) => toast(messageOf(error)),
      },
    )
  return (
    <div className="row">
      <Button isDisabled={change.isPending} onPress={setStatus}>
        {isActive ? 'Pause' : 'Enable'}
      </Button>
      <Button onPress={() => setOpen('test')}>Send a test</Button>
      <Button isDisabled={!isActive} onPress={() => setOpen('replay')}>
        Replay …
      </Button>
      <Button onPress={() => setOpen('edit')}>Edit</Button>
      <Button onPress={() => setOpen('rotate')}>Rotate the secret</Button>
      <Button look="danger" onPress={() => setOpen('delete')}>
        Delete
      </Button>
      {open === 'edit' && <Edit {...props} onClose={close} />}
      {open === 'test' && <Test webhook={webhook} onClose={close} />}
      {open === 'rotate' && <Rotate {...props} onClose={close} />}
      {open === 'replay' && <Replay webhook={webhook} onClose={close} />}
      {open === 'delete' && <Delete {...props} onClose={close} />}
    </div>
  )
}

function Test({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const api = useApi()
  const navigate = useNavigate()
  const { data: types = [] } = useEventTypes()
  const [event, setEvent] = useState('webhook.test')
  const names = [...new Set(['webhook.test', ...types.map((type) => type.event)])]
  const send = async () => {
    const path = { id: webhook.id }
    const sent = await unwrap(
      api.POST('/api/webhooks/{id}/test', { params: { path }, body: { event: event as never } }),
    )
    await navigate({ to: '/webhooks/$id/deliveries/$deliveryId', params: { id: webhook.id, deliveryId: sent.id } })
  }
  return (
    <Confirm title="Send a test" isOpen onClose={onClose} action="Send" onConfirm={send}>
      <p>The example of an event is sent to this webhook only, in one attempt, even while it is paused.</p>
      <SelectField
        label="Event"
        value={event}
        onChange={setEvent}
        options={names.map((value) => ({ value, label: value }))}
      />
    </Confirm>
  )
}

function Rotate({ webhook: { id }, etag, onClose }: Props & { onClose: () => void }) {
  const api = useApi()
  const queries = useQueryClient()
  const [immediate, setImmediate] = useState(false)
  const rotating = useMutation({
    mutationFn: () => {
      const rotation = { params: { path: { id } }, headers: { 'If-Match': etag }, body: { immediate } }
      return unwrap(api.POST('/api/webhooks/{id}/rotate-secret', rotation))
    },
    onSettled: () => queries.invalidateQueries({ queryKey: webhookKey(id) }),
  })
  return (
    <Dialog title="Rotate the secret" isOpen isLocked={rotating.data !== undefined} onClose={onClose}>
      {rotating.data === undefined ? (
        <>
          <p>
            For 24 hours, deliveries are signed with the old secret too, so that the receiver can change at any time.
          </p>
          <CheckField
            label="The old secret has leaked"
            hint="It stops signing at once. Until the receiver has the new secret, it rejects deliveries."
            isSelected={immediate}
            onChange={setImmediate}
          />
        </>
      ) : (
        <SecretOnce label="New secret" secret={rotating.data.secret} />
      )}
      <ErrorNotice error={rotating.error} />
      <div className="row end">
        <Button isDisabled={rotating.isPending} onPress={onClose}>
          {rotating.data === undefined ? 'Cancel' : 'Done'}
        </Button>
        {rotating.data === undefined && (
          <Button look="primary" isDisabled={rotating.isPending} onPress={() => rotating.mutate()}>
            Rotate
          </Button>
        )}
      </div>
    </Dialog>
  )
}

function Delete({ webhook: { id, callbackUrl }, etag, onClose }: Props & { onClose: () => void }) {
  const api = useApi()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const remove = async () => {
    await unwrap(api.DELETE('/api/webhooks/{id}', { params: { path: { id }, header: { 'If-Match': etag } } }))
    await navigate({ to: '/webhooks' })
    queries.removeQueries({ queryKey: webhookKey(id) })
    await queries.invalidateQueries({ queryKey: ['webhooks'] })
  }
  return (
    <Confirm
      title="Delete the webhook?"
      isOpen
      onClose={onClose}
      action="Delete the webhook"
      isDangerous
      onConfirm={remove}
    >
      <p>
        {URL.parse(callbackUrl)?.host} receives no further events, waiting deliveries fail, and the secret is gone. To
        stop deliveries for a while, pause the webhook instead.
      </p>
    </Confirm>
  )
}
