import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { ApiError, apiUrl, authorizedFetch, linkOf, type Tagged, unenclosed } from '../../api/client.ts'
import { type Access, useDocument } from '../../api/document.ts'
import { type Session, useSession } from '../../session/session.ts'
import { type Resource, type Row, resourcesOf } from './model.ts'

export interface Answer {
  body: unknown
  headers: Headers
}

interface Sending {
  body?: unknown
  /** Sent as the request body instead of JSON; its Content-Type is in `headers`. */
  file?: Blob
  headers?: Record<string, string>
  signal?: AbortSignal
}

/**
 * Sends a request to a path that the OpenAPI document describes. Resolves with a list as an array; rejects with an
 * `ApiError` for an error response.
 */
export type Send = (method: string, path: string, sending?: Sending) => Promise<Answer>

export function useSend(): Send {
  const session = useSession()
  return useMemo(() => sender(session), [session])
}

function sender(session: Session): Send {
  const request = authorizedFetch(session)
  return async (method, path, { body, file, headers = {}, signal } = {}) => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const content = file ?? (body === undefined ? undefined : JSON.stringify(body))
    const made = () =>
      new Request(apiUrl(path), {
        method,
        headers: {
          accept: 'application/json, application/problem+json',
          ...(body !== undefined && { 'content-type': type }),
          ...headers,
        },
        ...(content !== undefined && { body: content }),
        ...(signal && { signal }),
      })
    const response = await request(made(), made)
    const text = await response.text()
    const isJson = /json/.test(response.headers.get('content-type') ?? '')
    const parsed: unknown = isJson && text !== '' ? JSON.parse(text) : undefined
    if (!response.ok) throw new ApiError(response, (parsed ?? {}) as object)
    return { body: unenclosed(parsed), headers: response.headers }
  }
}

const maxWaits = 10

/** Resolves after the given time, or as soon as `signal` is aborted. */
const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    setTimeout(resolve, ms)
    signal.addEventListener('abort', () => resolve(), { once: true })
  })

/**
 * Sends a request. After a 429, waits for Retry-After and sends it again, at most ten times, unless `signal` is
 * aborted.
 */
export async function patiently<Result>(request: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
  for (let turn = 0; ; turn++) {
    try {
      return await request()
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 429) || turn === maxWaits) throw error
      const seconds = Number(error.response.headers.get('retry-after')) || 1
      await pause(seconds * 1_000, signal)
      if (signal.aborted) throw error
    }
  }
}

/** The resources of the service, from its OpenAPI document. */
export const useResources = () => useDocument('resources', async (read) => resourcesOf(await read()))

/** Returns true if the user has the scopes for an operation; false if `access` is undefined. */
export const allows = ({ may }: Pick<Session, 'may'>, access: Access | undefined): boolean =>
  access?.some((scopes) => may(...scopes)) ?? false

export const pageSize = 100

export interface ListPage<Item> {
  items: Item[]
  next: string | null
}

/** Reads one page of a list. */
export async function readPage<Item>(send: Send, path: string, signal?: AbortSignal): Promise<ListPage<Item>> {
  const { body, headers } = await send('GET', path, signal ? { signal } : {})
  return { items: body as Item[], next: linkOf(headers, 'next') }
}

export const listKey = (name: string) => ['records', name, 'list'] as const
export const deletedKey = (name: string) => ['records', name, 'deleted'] as const
export const rowKey = (name: string, id: string | number) => ['records', name, 'row', String(id)] as const

/** Queries the total number of rows in a list; null if counting takes the service too long. */
export function useCount(name: string, path: string) {
  const send = useSend()
  return useQuery({
    queryKey: [...listKey(name), 'count', path],
    staleTime: 60_000,
    retry: false,
    queryFn: async ({ signal }) => {
      const { headers } = await send('GET', path, { headers: { prefer: 'count=exact' }, signal })
      const total = headers.get('x-total-count')
      return total === null ? null : Number(total)
    },
  })
}

/** A row with its entity tag. */
export type Loaded = Tagged<Row, string | null>

/** Reads a row with its entity tag. */
export async function readRow(send: Send, { path }: Resource, id: string | number): Promise<Loaded> {
  const { body, headers } = await send('GET', `${path}/${encodeURIComponent(id)}`)
  return { row: body as Row, etag: headers.get('etag') }
}

export function useRow(resource: Resource, id: string | number, enabled = true) {
  const send = useSend()
  return useQuery({ queryKey: rowKey(resource.name, id), queryFn: () => readRow(send, resource, id), enabled })
}

/**
 * The header that makes a change fail with 412 if the row has changed since it was read; no header if `etag` is null.
 */
export const ifMatch = (etag: string | null): Record<string, string> => (etag === null ? {} : { 'if-match': etag })
