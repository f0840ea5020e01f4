import { useQueryClient } from '@tanstack/react-query'
import { unwrapTagged, useApi } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Conflict } from '../../ui/conflict.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { useEdit } from '../../ui/edit.ts'
import { ErrorNotice } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { readWebhook, type Webhook, webhookKey } from './parts.tsx'
import { headersOf, type Settings, SettingsFields } from './settings.tsx'

const settingsOf = ({
  event,
  callbackUrl,
  description = '',
  payloadStyle,
  version = '',
  headers = {},
}: Webhook): Settings => ({
  ...{ event, callbackUrl, description, payloadStyle, version },
  headers: Object.entries(headers).map(([name, value], key) => ({ key, name, value })),
})

/** Returns a merge patch with the changed settings; removed headers become null. */
function patchOf(before: Settings, after: Settings): object {
  const [old, now] = [headersOf(before.headers), headersOf(after.headers)]
  const removed = Object.fromEntries(
    Object.keys(old)
      .filter((name) => !(name in now))
      .map((name) => [name, null]),
  )
  const { event, callbackUrl, description, payloadStyle, version } = after
  return {
    ...(event !== before.event && { event }),
    ...(callbackUrl !== before.callbackUrl && { callbackUrl }),
    ...(description !== before.description && { description: description === '' ? null : description }),
    ...(payloadStyle !== before.payloadStyle && { payloadStyle }),
    ...(version !== before.version && { version }),
    ...(JSON.stringify(old) !== JSON.stringify(now) && { headers: { ...removed, ...now } }),
  }
}

const textsOf = (settings: Settings) => ({
  ...{ Address: settings.callbackUrl, Events: settings.event, Description: settings.description },
  ...{ Body: settings.payloadStyle, 'API version': settings.version },
  'Static headers': settings.headers.map(({ name, value }) => `${name}: ${value}`).join(', '),
})

/** The dialog that changes the settings of a webhook. */
export function Edit({ webhook, etag, onClose }: { webhook: Webhook; etag: string; onClose: () => void }) {
  const api = useApi()
  const queries = useQueryClient()
  const { id } = webhook
  const { before, draft, setDraft, ...edit } = useEdit({
    ...{ loaded: { row: webhook, etag }, draftOf: settingsOf, textsOf, patchOf, read: () => readWebhook(api, id) },
    send: (body, tag) =>
      unwrapTagged(api.PATCH('/api/webhooks/{id}', { params: { path: { id }, header: { 'If-Match': tag } }, body })),
    onDone: (_, isSaved) => {
      if (isSaved) toast('Saved')
      void queries.invalidateQueries({ queryKey: webhookKey(id) })
      void queries.invalidateQueries({ queryKey: ['webhooks'] })
      onClose()
    },
  })
  return (
    <Dialog title="Edit the webhook" isOpen onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          edit.save()
        }}
      >
        <SettingsFields settings={draft} onChange={setDraft} error={edit.error} />
        {draft.callbackUrl !== before.callbackUrl && (
          <p className="notice warn">Waiting deliveries go to the new address as well.</p>
        )}
        <ErrorNotice error={edit.error} />
        <div className="row end">
          <Button isDisabled={edit.isRunning} onPress={onClose}>
            Cancel
          </Button>
          <Button type="submit" look="primary" isDisabled={edit.isRunning}>
            Save
          </Button>
        </div>
      </form>
      {edit.conflict && <Conflict {...edit.conflict} />}
    </Dialog>
  )
}
