import { fieldError, TextField } from './fields.tsx'

/** The texts of the limits in a form. */
export interface LimitDraft {
  calls: string
  seconds: string
  quota: string
}

/** The limits of a client or an API key; null means the default. The rate is requests/seconds. */
interface Limits {
  rate: string | null
  quota: number | null
}

/** Returns the texts of the limits; without a rate, the period is `usualSeconds`. */
export function limitDraftOf({ rate, quota }: Limits, usualSeconds = '60'): LimitDraft {
  const [calls = '', seconds = usualSeconds] = rate?.split('/') ?? []
  return { calls, seconds, quota: quota?.toString() ?? '' }
}

/** Returns the members of a request body. */
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
export function LimitFields({ draft: { calls, seconds, quota }, set, error }: LimitFieldsProps) {
  return (
    <>
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
      <TextField
        label="Requests per month"
        type="number"
        min={1}
        value={quota}
        onChange={(text) => set({ quota: text })}
        hint="Empty for the default quota"
        error={fieldError(error, 'quota')}
      />
    </>
  )
}
