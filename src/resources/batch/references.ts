import type { FieldError } from '../../http/problems/problem.ts'

/** The representations of the rows written so far, by item; undefined for an item that leaves no row. */
export type Results = readonly (Readonly<Record<string, unknown>> | undefined)[]

/** A reference to a field in the result of an earlier item. */
export interface ResultReference {
  /** The location of the reference in the item, such as `body.customerId`. */
  field: string
  /** The text of the reference, such as `0.id`. */
  text: string
}

const form = /^(0|[1-9]\d?)\.([A-Za-z_]\w{0,63})$/

/** Returns the text of a reference; undefined for any other value. */
function textOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const [name, ...others] = Object.keys(value)
  return name === '$ref' && others.length === 0 ? String((value as { $ref: unknown }).$ref) : undefined
}

/** Returns all references in a value, including nested ones. */
export function referencesIn(value: unknown, field: string): ResultReference[] {
  const text = textOf(value)
  if (text !== undefined) return [{ field, text }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => referencesIn(member, `${field}.${name}`))
}

/**
 * Returns the errors in the references of the item at index `at`; `hasRow` returns false for an item that deletes its
 * row.
 */
export function batchReferenceErrors(
  references: readonly ResultReference[],
  at: number,
  hasRow: (item: number) => boolean,
): FieldError[] {
  return references.flatMap(({ field, text }) => {
    const item = form.exec(text)?.[1]
    if (item === undefined) return [{ field, message: 'must refer to a field of an earlier item, such as 0.id' }]
    if (Number(item) >= at) return [{ field, message: `refers to item ${item}, which is not an earlier item` }]
    return hasRow(Number(item)) ? [] : [{ field, message: `refers to item ${item}, which deletes its row` }]
  })
}

const maxCharacters = 1_000

/**
 * Returns an error for each reference to a field without a value or with a value of an unsupported type. Objects,
 * arrays and long texts are not supported, because references to them could make a short batch arbitrarily large.
 */
export const batchValueErrors = (references: readonly ResultReference[], results: Results): FieldError[] =>
  references.flatMap(({ field, text }) => {
    const value = referred(text, results)
    if (value === undefined) return [{ field, message: `refers to ${text}, which has no value` }]
    if (typeof value !== 'object' && String(value).length <= maxCharacters) return []
    const allowed = `a string of at most ${maxCharacters.toLocaleString('en')} characters, a number or a boolean`
    return [{ field, message: `refers to ${text}, which is not ${allowed}` }]
  })

/** Returns a copy of a value with each reference replaced by the value of the field that it names. */
export function resolved(value: unknown, results: Results): unknown {
  const text = textOf(value)
  if (text !== undefined) return referred(text, results)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((item) => resolved(item, results))
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, resolved(member, results)]))
}

function referred(text: string, results: Results): unknown {
  const [, item, field = ''] = form.exec(text) ?? []
  const result = results[Number(item)]
  return result && Object.hasOwn(result, field) ? result[field] : undefined
}
