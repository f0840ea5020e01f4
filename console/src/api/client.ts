import createClient from 'openapi-fetch'
import { createContext, useContext } from 'react'
import { request as sendRequest } from '../session/network.ts'
import type { Session } from '../session/session.ts'
import type { paths } from './schema.d.ts'

/** An error body in any of the forms that the service sends. */
interface ErrorBody {
  errorCode?: string
  requestId?: string
  title?: string
  detail?: string
  message?: string
  error?: string
  error_description?: string
  errors?: { field: string; message: string }[]
  details?: { field: string; issue: string }[]
}

/** An error response of the API. The message is the most specific text in the body. */
export class ApiError extends Error {
  readonly status: number
  /** The error code, such as INVALID_INPUT. */
  readonly code: string
  readonly requestId: string | null
  /** The invalid fields, each with a message. */
  readonly fields: readonly { field: string; message: string }[]
  readonly response: Response

  constructor(response: Response, body: ErrorBody) {
    const { detail, message, error_description: description, title, error } = body
    super(detail ?? message ?? description ?? title ?? error ?? `The service responded with status ${response.status}.`)
    this.name = 'ApiError'
    this.status = response.status
    this.code = body.errorCode ?? body.error ?? ''
    this.requestId = body.requestId ?? response.headers.get('x-request-id')
    this.fields = body.errors ?? body.details?.map(({ field, issue }) => ({ field, message: issue })) ?? []
    this.response = response
  }
}

/** Returns true if the service refused a change because the row has changed since it was read. */
export const isOutdated = (error: unknown): boolean => error instanceof ApiError && error.status === 412

/** A row, and the entity tag that it had when it was read, for If-Match. */
export interface Tagged<Row, Tag = string> {
  row: Row
  etag: Tag
}

/**
 * Returns a `fetch` that sends the user's access token. If the service rejects the token, refreshes it and retries once
 * with `again()` or, by default, with a clone of the request, which keeps the body in memory. Rejects with a
 * `NetworkError` if there is no response.
 */
export function authorizedFetch(session: Session): (request: Request, again?: () => Request) => Promise<Response> {
  const send = (request: Request, token: string) => {
    request.headers.set('authorization', `Bearer ${token}`)
    return sendRequest(request)
  }
  return async (request, again) => {
    const clone = again ? request : request.clone()
    const token = await session.accessToken()
    const response = await send(request, token)
    if (response.status !== 401) return response
    return send(again?.() ?? clone, await session.accessToken(token))
  }
}

/** The path prefix of the newest API version, such as `/v2`; empty for v1. The service inserts it into the page. */
export const apiPrefix = document.querySelector<HTMLMetaElement>('meta[name="api-prefix"]')?.content ?? ''

/** Returns the URL of a path in the newest API version; `path` has no version prefix. */
export const apiUrl = (path: string): string => location.origin + apiPrefix + path

/** Creates the typed API client. Its paths have no version prefix. Wrap each call in `unwrap`. */
export const createApi = (session: Session) =>
  createClient<paths>({
    baseUrl: location.origin + apiPrefix,
    fetch: authorizedFetch(session),
    headers: { accept: 'application/json, application/problem+json' },
  })

export type Api = ReturnType<typeof createApi>

export const ApiContext = createContext<Api | null>(null)

export function useApi(): Api {
  const api = useContext(ApiContext)
  if (api === null) throw new Error('There is no API above this component')
  return api
}

interface Outcome<Data> {
  data?: Data
  error?: unknown
  response: Response
}

/**
 * Resolves with the data of a successful response; rejects with an `ApiError` for any other. Returns a list as an array
 * in every API version.
 */
export async function unwrap<Data>(outcome: Promise<Outcome<Data>>): Promise<Data> {
  const { data, error, response } = await outcome
  if (!response.ok) throw new ApiError(response, errorBodyOf(error))
  return unenclosed(data) as Data
}

/** Like `unwrap`, but also returns the response headers, such as ETag and Link. */
export async function unwrapWithHeaders<Data>(
  outcome: Promise<Outcome<Data>>,
): Promise<{ data: Data; headers: Headers }> {
  const { data, error, response } = await outcome
  if (!response.ok) throw new ApiError(response, errorBodyOf(error))
  return { data: unenclosed(data) as Data, headers: response.headers }
}

/** Returns the items of a list in the form `{ items, next, prev }`; returns any other body unchanged. */
export function unenclosed(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Object.keys(body).length !== 3) return body
  return 'items' in body && 'next' in body && 'prev' in body ? body.items : body
}

/**
 * Like `unwrap`, but also returns the entity tag. Rejects without one, because a change would then be unconditional.
 */
export async function unwrapTagged<Row>(outcome: Promise<Outcome<Row>>): Promise<Tagged<Row>> {
  const { data, headers } = await unwrapWithHeaders(outcome)
  const etag = headers.get('etag')
  if (etag === null) throw new Error('The response has no ETag.')
  return { row: data, etag }
}

const errorBodyOf = (body: unknown): ErrorBody => (typeof body === 'object' && body !== null ? body : {})

/**
 * Returns the target of the link with this relation (RFC 8288) as an API path with its query, without the version
 * prefix; null if there is no such link.
 */
export function linkOf(headers: Headers, relation: string): string | null {
  for (const [, target = '', rel] of (headers.get('link') ?? '').matchAll(/<([^>]*)>\s*;[^,]*?rel="?([^",;]*)"?/g)) {
    if (rel?.split(' ').includes(relation)) {
      const { pathname, search } = new URL(target, location.origin)
      return (pathname.startsWith(`${apiPrefix}/`) ? pathname.slice(apiPrefix.length) : pathname) + search
    }
  }
  return null
}
