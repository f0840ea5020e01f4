const minLength = 32

/** Whether the name of a setting says that its value is secret. */
export const isSecret = (name: string): boolean => /SECRET$|KEY$/.test(name)

const ofSamples = /secret|passw|change.?me|example|sample/i
/** Up to 16 characters, repeated. */
const periodic = /^(.{1,16})\1+.{0,15}$/s

/** Whether a secret is short or easy to guess. */
export function isGuessable(value: string): boolean {
  const codes = [...value].map((sign) => sign.codePointAt(0) as number)
  const steps = codes.filter((code, at) => at > 0 && Math.abs(code - (codes[at - 1] as number)) <= 1)
  // In random hex digits, every fifth is adjacent to the one before it.
  return value.length < minLength || ofSamples.test(value) || periodic.test(value) || steps.length > codes.length * 0.75
}
