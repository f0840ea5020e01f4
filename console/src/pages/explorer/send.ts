import type { Draft } from './snippets.ts'

/**
 * A response. If it was too long or the user stopped the request, it contains only the part of the body that was read.
 */
export interface Received {
  status: number
  statusText: string
  headers: readonly (readonly [name: string, value: string])[]
  /** The time from sending the request until the response headers arrived, and until the body ended. */
  headersMs: number
  bodyMs: number
  size: number
  isCut: boolean
  /** Null if the body is not text. */
  text: string | null
  blob: Blob
}

/** Returns true if the user stopped the request. */
export const isStopped = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError'

const maxShownBytes = 1_048_576

/**
 * Sends a request and reads its response, up to about 1 MiB. If `signal` is aborted while the body arrives, returns the
 * part that has arrived.
 */
export async function send(
  { method, url, headers, body }: Draft,
  authorized: (request: Request) => Promise<Response>,
  signal: AbortSignal,
): Promise<Received> {
  const beganMs = performance.now()
  const response = await authorized(new Request(url, { method, headers: headers.map(([...one]) => one), body, signal }))
  const headersMs = performance.now() - beganMs
  const type = response.headers.get('content-type') ?? ''
  const { chunks, size, isCut } = await read(response)
  const blob = new Blob(chunks, { type })
  return {
    ...{ status: response.status, statusText: response.statusText, headers: [...response.headers] },
    ...{ headersMs, bodyMs: performance.now() - beganMs, size, isCut, blob },
    text: isText(type) ? await blob.text() : null,
  }
}

async function read({ body }: Response) {
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let size = 0
  const reader = body?.getReader()
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
      if (done || value === undefined) return { chunks, size, isCut: false }
      chunks.push(value as Uint8Array<ArrayBuffer>)
      size += value.length
      if (size > maxShownBytes) break
    }
    await reader?.cancel()
  } catch (error) {
    if (!isStopped(error)) throw error
  }
  return { chunks, size, isCut: true }
}

const isText = (type: string) => type === '' || /^text\/|json|xml|javascript|urlencoded|yaml/.test(type)
