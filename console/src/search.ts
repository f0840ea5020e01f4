// Parses the search parameters of a page's URL. Links may contain arbitrary values.

/** Returns a search parameter as text. The router parses a value such as `42` as a number. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'number' || (typeof value === 'string' && value !== '') ? String(value) : undefined

/** Returns `value` if it is one of `values`; otherwise undefined. */
export const oneOf = <Value extends string>(values: readonly Value[], value: unknown): Value | undefined =>
  values.find((known) => known === value)

/** Returns a function that reads the named search parameters as text and ignores all others. */
export const textsOf =
  <const Name extends string>(...names: Name[]) =>
  (search: Record<string, unknown>) => {
    const texts = names.map((name) => [name, textOf(search[name])] as const)
    return Object.fromEntries(texts.filter(([, text]) => text !== undefined)) as { [Key in Name]?: string }
  }
