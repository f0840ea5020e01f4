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
/** The time range and the filters in the form. The times are values of `datetime-local` inputs. */
interface Draft {
  since: string
  until: string
  status: 'failed' | 'delivered' | ''
  event: string
}

interface Progress {
  isRunning: boolean
  count: number
  error: unknown
}

/** Replays the deliveries of a time range in steps, until all are replayed or the user stops it. */
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

/** The dialog that replays the deliveries of a time range. */
export function Replay({ webhook: { id }, onClose }: { webhook: Webhook; onClose: () => void }) {
  const [draft, setDraft] = useState<Draft>(() => ({
    ...{ since: localInputText(Date.now() - 3_600_000), until: '' },
    ...{ status: 'failed', event: '' },
  }))
  const { progress, start, stop } = useReplay(id)
  const isRunning = progress?.isRunning === true
  return (
    <Dialog title="Replay deliveries" isOpen isLocked={isRunning} onClose={onClose}>
      <p>Sends the deliveries of a time range again, with the same ids and bodies. Tests are left out.</p>
      <Range draft={draft} onChange={setDraft} error={progress?.error} />
      <p role="status">
        {progress !== null &&
          `${countText(progress.count)} deliveries are sent again${progress.isRunning ? ' …' : '.'}`}
      </p>
      <ErrorNotice error={progress?.error} />
      <div className="row end">
        {isRunning ? (
          <Button onPress={stop}>Stop</Button>
        ) : (
          <Button onPress={onClose}>{progress === null ? 'Cancel' : 'Close'}</Button>
        )}
        <Button look="primary" isDisabled={isRunning || draft.since === ''} onPress={() => void start(bodyOf(draft))}>
          Replay
        </Button>
      </div>
    </Dialog>
  )
}

function bodyOf({ since, until, status, event }: Draft): Body {
  const end = until === '' ? new Date() : new Date(until)
  const chosen = { ...(status && { status }), ...(event && { event }) }
  return { since: new Date(since).toISOString(), until: end.toISOString(), ...chosen } as Body
}

interface RangeProps {
  draft: Draft
  onChange: (draft: Draft) => void
  error: unknown
}

/** The form fields that select the deliveries to replay. */
function Range({ draft, onChange, error }: RangeProps) {
  const { data: types = [] } = useEventTypes()
  const set = (change: Partial<Draft>) => onChange({ ...draft, ...change })
  return (
    <>
      <TextField
        label="Created from"
        type="datetime-local"
        isRequired
        value={draft.since}
        onChange={(since) => set({ since })}
        error={fieldError(error, 'since')}
      />
      <TextField
        label="Created before"
        hint="Empty for now"
        type="datetime-local"
        value={draft.until}
        onChange={(until) => set({ until })}
        error={fieldError(error, 'until')}
      />
      <SelectField<Draft['status']>
        label="Status"
        value={draft.status}
        onChange={(status) => set({ status })}
        options={[
          { value: 'failed', label: 'failed' },
          { value: 'delivered', label: 'delivered' },
          { value: '', label: 'both' },
        ]}
      />
      <SelectField
        label="Event"
        value={draft.event}
        onChange={(event) => set({ event })}
        options={[{ value: '', label: 'Any' }, ...types.map((type) => ({ value: type.event, label: type.event }))]}
      />
    </>
  )
}
