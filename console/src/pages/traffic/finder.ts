import type { Finder } from '../../shell/finders.ts'

const urn = /^urn:request:([A-Za-z0-9._-]{8,64})$/i
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Returns the request id in a text: that of a URN, or a UUID; null for other texts. */
export function requestIdIn(text: string): string | null {
  const trimmed = text.trim()
  return urn.exec(trimmed)?.[1] ?? (uuid.test(trimmed) ? trimmed : null)
}

/** Recognizes the id of a request, or its URN from an error, in the command palette. */
export const requestFinder: Finder = {
  title: 'Request',
  scopes: ['admin'],
  find: (text) => {
    const id = requestIdIn(text)
    return id === null ? null : `/requests/${id}`
  },
}
