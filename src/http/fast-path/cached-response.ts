import type { FastifyContextConfig } from 'fastify'

/** A cached 200 response to a GET request: its JSON, and the header fields that describe it. */
export interface CachedResponse {
  text: string
  etag: string
  /** An HTTP date. */
  lastModified?: string
  link?: string
  /** Computed by the fast path when it first sends the response: the length of the JSON in bytes, and `linesOf`. */
  bytes?: number
  lines?: string
}

/** Finds the cached responses of a route. */
export interface CachedResponses {
  /** Whether there is one response for each last segment of the path, such as an id, or for each target. */
  by: 'segment' | 'target'
  /**
   * Returns the response to a request target if it is current; the last segment starts at `from`. The response must not
   * depend on the caller.
   */
  find: (target: string, from: number) => CachedResponse | undefined
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The cached responses of the route, which the fast path may send. The route's 200 and 304 responses must have no
     * other header fields than those of the policies and of the cached response.
     */
    cached?: CachedResponses
  }
}

export type RouteFacts = Pick<FastifyContextConfig, 'cached' | 'shed'>

/** Returns the length of the JSON in bytes. */
export const bytesOf = (response: CachedResponse): number => (response.bytes ??= Buffer.byteLength(response.text))

/** Returns the lines of the fields that describe a response, in the order in which the policies send them. */
export function linesOf(response: CachedResponse, status: 200 | 304): string {
  if (status === 304) return validatorLines(response)
  response.lines ??= allLines(response)
  return response.lines
}

const validatorLines = ({ etag, link }: CachedResponse): string =>
  link === undefined ? `etag: ${etag}\r\n` : `link: ${link}\r\netag: ${etag}\r\n`

function allLines(response: CachedResponse): string {
  const { lastModified } = response
  const modified = lastModified === undefined ? '' : `last-modified: ${lastModified}\r\n`
  // Joined into one flat string, because a string built with `+` would be flattened again on every write.
  return [
    ...[validatorLines(response), modified, 'content-type: application/json; charset=utf-8\r\n'],
    ...['content-length: ', bytesOf(response), '\r\n'],
  ].join('')
}

/** Returns the JSON in UTF-8, with one character per byte. */
export const bodyOf = (response: CachedResponse): string =>
  bytesOf(response) === response.text.length ? response.text : Buffer.from(response.text).toString('latin1')
