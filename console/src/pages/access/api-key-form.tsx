import { Button } from '../../ui/button.tsx'
import { fieldError, TextField } from '../../ui/fields.tsx'
import { localInputText } from '../../ui/format.tsx'
import { type LimitDraft, LimitFields, limitDraftOf, limitsOf } from '../../ui/limit-fields.tsx'
import { ErrorNotice } from '../../ui/states.tsx'
import type { ApiKey } from './access-types.ts'

/** A request body. For a limit, null means the default; for `expiresAt`, no expiry. */
interface KeyBody {
  name: string
  rate: string | null
  quota: number | null
  expiresAt: string | null
}

/** The text in the form's fields. */
export interface KeyDraft extends LimitDraft {
  name: string
  expires: string
}

/** Returns the initial values of the form, for an existing or a new key. */
export const draftOf = (key?: ApiKey): KeyDraft => ({
  ...limitDraftOf({ rate: key?.rate ?? null, quota: key?.quota ?? null }),
  name: key?.name ?? '',
  expires: key?.expiresAt ? localInputText(key.expiresAt) : '',
})

/** Converts the form's values to a request body. */
export const bodyOf = ({ name, expires, ...limits }: KeyDraft): KeyBody => ({
  name,
  ...limitsOf(limits),
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

/** The form for the settings of an API key. */
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
      <LimitFields draft={draft} set={set} error={error} />
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
