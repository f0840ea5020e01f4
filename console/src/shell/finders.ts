/** Recognizes a pasted text, such as the id of a request, and returns the path of its page. */
export interface Finder {
  title: string
  scopes: readonly string[]
  find: (text: string) => string | null
}

/** What the command palette recognizes besides the names of pages. */
export const finders: readonly Finder[] = []
