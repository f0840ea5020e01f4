import type { Route } from './operation-types.ts'

/** Determines which routes a document covers. */
export interface RouteSelection {
  /** Path prefixes that serve the same routes; the document lists paths without these prefixes. */
  prefixes: readonly string[]
  /** Whether the document also covers unversioned routes. */
  whole: boolean
}

/** A route in a document, with its path as the document lists it. */
export interface Selected extends Route {
  /** Whether every prefix of the document serves the route. */
  isVersioned: boolean
}

const ofVersion = /^\/v\d+(?=\/)/

/** Returns a document's routes without duplicates: `/v1/books` and `/books` are the same route. */
export function selected(routes: readonly Route[], { prefixes, whole }: RouteSelection): Selected[] {
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
