import { useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { fieldError, SelectField, TextField } from '../../ui/fields.tsx'
import { countText, localInputText } from '../../ui/format.tsx'
import { ErrorNotice } from '../../ui/states.tsx'
import { useEventTypes, type Webhook } from './parts.tsx'

type Body = components['schemas']['WebhookReplayRequest']
type Status = 'failed' | 'delivered' | ''

interface Progress {
  isRunning: boolean
  count: number
  error: unknown
}

/** Sends a time range of deliveries again, in steps, until the range is complete or the person stops it. */
function useReplay(id: string) {
  const api = useApi()
  const queries = useQueryClient()
  const [progress, setProgress] = useState<Progress | null>(null)
  const stopping = useRef(new AbortController())
  const start = async (range: Body) => {
    stopping.current = new AbortController()
    const { signal } = stopping.current
    let [from, count]: [string | undefined, number] = [range.since, 0]
    setProgress({ isRunning: true, count, error: null })
    try {
      while (from !== undefined && !signal.aborted) {
        const step: components['schemas']['WebhookReplayResult'] = await unwrap(
          api.POST('/api/webhooks/{id}/replay', { params: { path: { id } }, body: { ...range, since: from } }),
        )
        count += step.count
        from = step.nextSince
        setProgress({ isRunning: from !== undefined && !signal.aborted, count, error: null })
      }
    } catch (error) {
      setProgress({ isRunning: false, count, error })
    }
    await queries.invalidateQueries({ queryKey: ['deliveries', id] })
  }
  return { progress, start, stop: () => stopping.current.abort() }
}

/** Sends the deliveries of a time range again. */
export function Replay({ webhook: { id }, onClose }: { webhook: Webhook; onClose: () => void }) {
  const { data: types = [] } = useEventTypes()
  const [since, setSince] = useState(() => localInputText(Date.now() - 3_600_000))
  const [until, setUntil] = useState('')
  const [status, setStatus] = useState<Status>('failed')
  const [event, setEvent] = useState('')
  const { progress, start, stop } = useReplay(id)
  const isRunning = progress?.isRunning === true
  const replay = () => {
    const end = until === '' ? new Date() : new Date(until)
    const chosen = { ...(status && { status }), ...(event && { event }) }
    void start({ since: new Date(since).toISOString(), until: end.toISOString(), ...chosen } as Body)
  }
  const error = progress?.error
  return (
    <Dialog title="Replay deliveries" isOpen isLocked={isRunning} onClose={onClose}>
      <p>Sends the deliveries of a time range again, with the same ids and bodies. Tests are left out.</p>
      <TextField
        label="Created from"
        type="datetime-local"
        isRequired
        value={since}
        onChange={setSince}
        error={fieldError(error, 'since')}
      />
      <TextField
        label="Created before"
        hint="Empty for now"
        type="datetime-local"
        value={until}
        onChange={setUntil}
        error={fieldError(error, 'until')}
      />
      <SelectField<Status>
        label="Status"
        value={status}
        onChange={setStatus}
        options={[
          { value: 'failed', label: 'failed' },
          { value: 'delivered', label: 'delivered' },
          { value: '', label: 'both' },
        ]}
      />
      <SelectField
        label="Event"
        value={event}
        onChange={setEvent}
        options={[{ value: '', label: 'Any' }, ...types.map((type) => ({ value: type.event, label: type.event }))]}
      />
      <p role="status">
        {progress !== null &&
          `${countText(progress.count)} deliveries are sent again${progress.isRunning ? ' …' : '.'}`}
      </p>
      <ErrorNotice error={error} />
      <div className="row end">
        {isRunning ? (
          <Button onPress={stop}>Stop</Button>
        ) : (
          <Button onPress={onClose}>{progress === null ? 'Cancel' : 'Close'}</Button>
        )}
        <Button look="primary" isDisabled={isRunning || since === ''} onPress={replay}>
          Replay
        </Button>
      </div>
    </Dialog>
  )
}
