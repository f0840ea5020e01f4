/** A page in the navigation. `scopes`: a person needs all of them to see it. */
export interface Entry {
  title: string
  to: string
  scopes: readonly string[]
  /** More words that find the page in the command palette. */
  words?: string
}

export interface Group {
  title: string | null
  entries: readonly Entry[]
}

/** The pages of the console, as listed in the navigation and the command palette. */
export const navigation: readonly Group[] = [
  { title: null, entries: [{ title: 'Overview', to: '/', scopes: [], words: 'home start' }] },
]

/** Returns the groups with the pages that a person may see. */
export const visible = (may: (...scopes: string[]) => boolean): readonly Group[] =>
  navigation
    .map(({ title, entries }) => ({ title, entries: entries.filter(({ scopes }) => may(...scopes)) }))
    .filter(({ entries }) => entries.length > 0)
