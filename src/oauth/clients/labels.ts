/**
 * Facts that administrators record about a client, such as `{ tenant: 'north' }`. Claims functions read these labels.
 */
export type Labels = Readonly<Record<string, string>>

/** Changes to labels. A member that is null removes that label; null in place of the object removes all labels. */
export type LabelChanges = Readonly<Record<string, string | null>> | null

export const maxLabels = 20
export const labelKeyPattern = '^[a-z][a-z0-9-]{0,39}$'
const key = new RegExp(labelKeyPattern)
const value = /^\P{C}{1,200}$/u

/** Applies changes to labels as a merge patch (RFC 7396). */
export function changedLabels(labels: Labels, changes: LabelChanges): Labels {
  if (changes === null) return {}
  const merged = Object.entries({ ...labels, ...changes })
  return Object.fromEntries(merged.filter((entry): entry is [string, string] => entry[1] !== null))
}

/** Returns a message for each rule that the labels break. */
export function labelErrors(labels: Labels): string[] {
  const entries = Object.entries(labels)
  const [keys, values] = [
    entries.filter(([name]) => !key.test(name)),
    entries.filter(([name, text]) => key.test(name) && !value.test(text)),
  ].map((broken) => broken.map(([name]) => name.slice(0, 60)))
  return [
    ...(entries.length > maxLabels ? [`must contain at most ${maxLabels} labels`] : []),
    ...(keys?.length ? [`must have keys of 1 to 40 characters a-z 0-9 -, the first a letter, not ${keys}`] : []),
    ...(values?.length ? [`must have values of 1 to 200 characters without control characters: ${values}`] : []),
  ]
}
