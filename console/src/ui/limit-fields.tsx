import { fieldError, TextField } from './fields.tsx'

/** The text in the form's limit fields. */
export interface LimitDraft {
  calls: string
  seconds: string
  quota: string
}

/** The limits of a client or an API key; null means the default. `rate` is requests/seconds. */
interface Limits {
  rate: string | null
  quota: number | null
}

/** Returns the initial text of the limit fields; without a rate, the period is `usualSeconds`. */
export function limitDraftOf({ rate, quota }: Limits, usualSeconds = '60'): LimitDraft {
  const [calls = '', seconds = usualSeconds] = rate?.split('/') ?? []
  return { calls, seconds, quota: quota?.toString() ?? '' }
}

/** Converts the fields to members of a request body. */
export const limitsOf = ({ calls, seconds, quota }: LimitDraft): Limits => ({
  rate: calls === '' ? null : `${calls}/${seconds}`,
  quota: quota === '' ? null : Number(quota),
})

interface LimitFieldsProps {
  draft: LimitDraft
  set: (change: Partial<LimitDraft>) => void
  error: unknown
}

/** The fields of a rate and of a monthly quota. */
export function LimitFields({ draft, set, error }: LimitFieldsProps) {
  const limitField = (label: string, name: 'calls' | 'quota', limit: 'rate' | 'quota') => (
    <TextField
      label={label}
      type="number"
      min={1}
      value={draft[name]}
      onChange={(text) => set({ [name]: text })}
      hint={`Empty for the default ${limit}`}
      error={fieldError(error, limit)}
    />
  )
  return (
    <>
      <div className="grid">
        {limitField('Requests', 'calls', 'rate')}
        <TextField
          label="Period in seconds"
          type="number"
          min={1}
          max={86_400}
          value={draft.seconds}
          isDisabled={draft.calls === ''}
          onChange={(text) => set({ seconds: text })}
        />
      </div>
      {limitField('Requests per month', 'quota', 'quota')}
    </>
  )
}
