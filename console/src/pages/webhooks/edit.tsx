import { useState } from 'react'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { useChange } from './actions.tsx'
import type { Webhook } from './parts.tsx'
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

/** Returns a merge patch with the settings that differ; headers that were removed become null. */
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

/** The dialog that changes the settings of a webhook. */
export function Edit({ webhook, etag, onClose }: { webhook: Webhook; etag: string; onClose: () => void }) {
  const [before] = useState(() => settingsOf(webhook))
  const [settings, setSettings] = useState(before)
  const change = useChange({ webhook, etag })
  const save = () =>
    change.mutate(patchOf(before, settings), {
      onSuccess: () => {
        toast('Saved')
        onClose()
      },
    })
  return (
    <Dialog title="Edit the webhook" isOpen onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          save()
        }}
      >
        <SettingsFields settings={settings} onChange={setSettings} error={change.error} />
        {settings.callbackUrl !== before.callbackUrl && (
          <p className="notice warn">Waiting deliveries go to the new address as well.</p>
        )}
        {change.error !== null && (
          <p className="notice wrong" role="alert">
            {messageOf(change.error)}
          </p>
        )}
        <div className="row end">
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isDisabled={change.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
