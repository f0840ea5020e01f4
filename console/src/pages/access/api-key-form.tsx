import { Button } from '../../ui/button.tsx'
import { fieldError, TextField } from '../../ui/fields.tsx'
import { localInputText } from '../../ui/format.tsx'
import { ErrorNotice } from '../../ui/states.tsx'
import type { ApiKey } from './access-types.ts'

/** The members of a request body; null means the default limit, or no expiry. */
interface KeyBody {
  name: string
  rate: string | null
  quota: number | null
  expiresAt: string | null
}

/** The texts in the form. */
export interface KeyDraft {
  name: string
  calls: string
  seconds: string
  quota: string
  expires: string
}

/** Returns the texts of a key, or of a new one. */
export function draftOf(key?: ApiKey): KeyDraft {
  const [calls = '', seconds = '60'] = key?.rate?.split('/') ?? []
  return {
    ...{ name: key?.name ?? '', calls, seconds },
    ...{ quota: key?.quota?.toString() ?? '', expires: key?.expiresAt ? localInputText(key.expiresAt) : '' },
  }
}

/** Returns the members of a request body. */
export const bodyOf = ({ name, calls, seconds, quota, expires }: KeyDraft): KeyBody => ({
  name,
  rate: calls === '' ? null : `${calls}/${seconds}`,
  quota: quota === '' ? null : Number(quota),
  expiresAt: expires === '' ? null : new Date(expires).toISOString(),
})

interface ApiKeyFormProps {
  draft: KeyDraft
  onChange: (draft: KeyDraft) => void
  action: string
  error: unknown
  isRunning: boolean
  onSubmit: () => void
}

/** The settings of an API key. */
export function ApiKeyForm({ draft, onChange, action, error, isRunning, onSubmit }: ApiKeyFormProps) {
  const set = (change: Partial<KeyDraft>) => onChange({ ...draft, ...change })
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        onSubmit()
      }}
    >
      <TextField
        label="Name"
        isRequired
        value={draft.name}
        onChange={(name) => set({ name })}
        error={fieldError(error, 'name')}
      />
      <RateFields {...draft} set={set} error={error} />
      <TextField
        label="Requests per month"
        type="number"
        min={1}
        value={draft.quota}
        onChange={(quota) => set({ quota })}
        hint="Empty for the default quota"
        error={fieldError(error, 'quota')}
      />
      <TextField
        label="Expires"
        type="datetime-local"
        value={draft.expires}
        onChange={(expires) => set({ expires })}
        hint="Empty for never"
        error={fieldError(error, 'expiresAt')}
      />
      <ErrorNotice error={error} />
      <div className="row end">
        <Button look="primary" type="submit" isDisabled={isRunning}>
          {action}
        </Button>
      </div>
    </form>
  )
}

interface RateProps {
  calls: string
  seconds: string
  set: (change: { calls?: string; seconds?: string }) => void
  error: unknown
}

function RateFields({ calls, seconds, set, error }: RateProps) {
  return (
    <div className="grid">
      <TextField
        label="Requests"
        type="number"
        min={1}
        value={calls}
        onChange={(text) => set({ calls: text })}
        hint="Empty for the default rate"
        error={fieldError(error, 'rate')}
      />
      <TextField
        label="Period in seconds"
        type="number"
        min={1}
        max={86_400}
        value={seconds}
        isDisabled={calls === ''}
        onChange={(text) => set({ seconds: text })}
      />
    </div>
  )
}
