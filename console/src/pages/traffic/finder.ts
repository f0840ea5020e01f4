import type { Finder } from '../../shell/finders.ts'

const urn = /^urn:request:([A-Za-z0-9._-]{8,64})$/i
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Returns the request id if the text is a request URN or a UUID; null for any other text. */
export function requestIdIn(text: string): string | null {
  const trimmed = text.trim()
  return urn.exec(trimmed)?.[1] ?? (uuid.test(trimmed) ? trimmed : null)
}

/** Finds a request by its id, or by the URN in an error response. */
export const requestFinder: Finder = {
  title: 'Request',
  scopes: ['admin'],
  find: (text) => {
    const id = requestIdIn(text)
    return id === null ? null : `/requests/${id}`
  },
}
