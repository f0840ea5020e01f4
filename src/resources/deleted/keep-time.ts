/** The `keepDeleted` option: a number of hours or days, such as `30 days`. */
export type KeepTime = `${number} ${'hour' | 'hours' | 'day' | 'days'}`

const form = /^([1-9]\d{0,4}) (hour|day)s?$/
const unitMs = { hour: 3_600_000, day: 86_400_000 }
const maxMs = 365 * unitMs.day

/** Converts the option to milliseconds; returns undefined if it is malformed. */
function msOf(time: unknown): number | undefined {
  const [, count, unit] = form.exec(String(time)) ?? []
  return count === undefined ? undefined : Number(count) * unitMs[unit as keyof typeof unitMs]
}

export const keepTimeOf = (time: KeepTime): number => msOf(time) as number

/** Returns the error in the `keepDeleted` option, if there is one. */
export function keepTimeErrors({
  keepDeleted,
  operations = ['read'],
}: {
  keepDeleted?: unknown
  operations?: readonly string[] | undefined
}): string[] {
  if (keepDeleted === undefined) return []
  const ms = msOf(keepDeleted)
  if (ms === undefined || ms > maxMs) return ["keepDeleted must be from '1 hour' to '365 days', such as '30 days'"]
  return operations.includes('read') || operations.includes('list')
    ? []
    : ['keepDeleted needs the operation read or list: deleted rows are shown to those who restore them']
}
