import type { Route } from './operation-types.ts'

/** Which of the live routes a document tells of. */
export interface Selection {
  /** The prefixes that serve the same routes: paths are written without them. */
  prefixes: readonly string[]
  /** Whether it also tells of what belongs to no version. */
  whole: boolean
}

/** A route of a document, its path as it is written there. */
export interface Selected extends Route {
  /** Live under every one of the document's prefixes. */
  isVersioned: boolean
}

const ofVersion = /^\/v\d+(?=\/)/

/** The routes that a document tells of, each once: `/v1/books` is `/books` once more. */
export function selected(routes: readonly Route[], { prefixes, whole }: Selection): Selected[] {
  const found = new Map<string, { route: Route; under: Set<string> }>()
  for (const route of routes) {
    const prefix = ofVersion.exec(route.path)?.[0] ?? ''
    if (!prefixes.includes(prefix) && !(whole && prefix === '')) continue
    const path = route.path.slice(prefix.length)
    const key = `${route.method} ${path}`
    const known = found.get(key) ?? { route: { ...route, path }, under: new Set() }
    known.under.add(prefix)
    found.set(key, known)
  }
  return [...found.values()].map(({ route, under }) => ({
    ...route,
    isVersioned: prefixes.every((prefix) => under.has(prefix)),
  }))
}
