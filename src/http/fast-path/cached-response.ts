import type { FastifyContextConfig } from 'fastify'

/** A cached 200 response to a GET request: its JSON, and the header fields that describe it. */
export interface CachedResponse {
  text: string
  etag: string
  /** The value of Last-Modified, an HTTP date. */
  lastModified?: string
  link?: string
  /** Computed when first needed: the length of the JSON in bytes, and the header lines of a 200. */
  bytes?: number
  lines?: string
}

/** Finds the cached responses of a route. */
export interface CachedResponses {
  /**
   * `segment`: responses are found by the last segment of the path, such as an id. `target`: responses are found by the
   * whole request target.
   */
  by: 'segment' | 'target'
  /**
   * Returns the response for a request target if it is cached and current. `from` is where the last segment starts in
   * the target; it is used only if `by` is `segment`. The response must not depend on the caller.
   */
  find: (target: string, from: number) => CachedResponse | undefined
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Cached responses of this route that the fast path may send. The header fields of the route's 200 and 304
     * responses must all come from the policies or from the cached response.
     */
    cached?: CachedResponses
  }
}

export type RouteFacts = Pick<FastifyContextConfig, 'cached' | 'shed'>

/** Returns the length of the JSON in bytes. */
export const bytesOf = (response: CachedResponse): number => (response.bytes ??= Buffer.byteLength(response.text))

/** Returns the header lines of a cached response, in the order in which the policies send them. */
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
  // The lines are joined into one flat string, because a string built with `+` would be flattened again on every write.
  return [
    ...[validatorLines(response), modified, 'content-type: application/json; charset=utf-8\r\n'],
    ...['content-length: ', bytesOf(response), '\r\n'],
  ].join('')
}

/** Returns the JSON in UTF-8, with one character per byte. */
export const latin1Body = (response: CachedResponse): string =>
  bytesOf(response) === response.text.length ? response.text : Buffer.from(response.text).toString('latin1')
