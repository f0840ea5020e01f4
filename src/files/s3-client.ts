import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { S3Client } from '@aws-sdk/client-s3'
import { maxDownloadsInAll, ResultsUnavailable } from './store.ts'

/** Timeouts and connection limits for the store. */
export interface S3Limits {
  /** Timeout for establishing a connection, in ms. */
  connectMs: number
  /** Timeout for the response, and then for each pause between two bytes, in ms. */
  silentMs: number
  /** Maximum connections for requests and uploads. */
  requestSockets: number
  /** Maximum connections for downloads; each download occupies a connection for as long as the client reads. */
  downloadSockets: number
}

export const s3Limits: S3Limits = {
  ...{ connectMs: 3_000, silentMs: 10_000 },
  ...{ requestSockets: 32, downloadSockets: maxDownloadsInAll },
}

export interface S3Clients {
  /** For uploads of any length; an upload fails if nothing is sent or received for `silentMs`. */
  uploads: S3Client
  /** For short requests; `within` sets a time limit for each request. */
  requests: S3Client
  /** For downloads, on separate connections, so that stalled downloads delay nothing else. */
  downloads: S3Client
}

/** Creates clients with the credentials, region and endpoint from the standard `AWS_…` variables. */
export function s3Clients(limits: S3Limits): S3Clients {
  const { requestSockets, downloadSockets, silentMs } = limits
  const requests = client(limits, requestSockets, silentMs)
  // No socket timeout: a download may be idle because its client does not read. `timedReads` detects that S3 has stalled.
  return { uploads: requests, requests, downloads: client(limits, downloadSockets, 0) }
}

function client({ connectMs }: S3Limits, maxSockets: number, socketTimeout: number): S3Client {
  const agent = { keepAlive: true, maxSockets }
  return new S3Client({
    region: process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION ?? 'us-east-1',
    // Self-hosted servers rarely have a separate host name for each bucket.
    forcePathStyle: process.env.AWS_ENDPOINT_URL_S3 !== undefined || process.env.AWS_ENDPOINT_URL !== undefined,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 3,
    requestHandler: {
      // Without explicit agents, the SDK does not limit the connections used by large uploads.
      ...{ httpAgent: new HttpAgent(agent), httpsAgent: new HttpsAgent(agent) },
      ...{ connectionTimeout: connectMs, socketTimeout },
    },
  })
}

/**
 * Runs a request to the store; the time limit `ms` includes retries. Rejects with `ResultsUnavailable` if the time
 * limit is exceeded, the signal is aborted, or the store cannot accept requests now.
 */
export async function within<T>(
  ms: number,
  run: (options: { abortSignal: AbortSignal }) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const stop = new AbortController()
  const end = () => stop.abort()
  const limit = setTimeout(end, ms)
  signal?.addEventListener('abort', end, { once: true })
  if (signal?.aborted) end()
  try {
    return await run({ abortSignal: stop.signal })
  } catch (error) {
    throw asUnavailable(error)
  } finally {
    // Cancel the timer, because it would abort a body that is still being read.
    clearTimeout(limit)
    signal?.removeEventListener('abort', end)
  }
}

/** Converts an SDK error to `ResultsUnavailable` if a later retry may succeed; returns other errors unchanged. */
export const asUnavailable = (error: unknown): unknown =>
  isAway(error) ? new ResultsUnavailable('The result store does not respond', { cause: error }) : error

const networkError = /^E(CONN|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN)/

interface SdkError {
  name?: string
  code?: string
  $metadata?: { httpStatusCode?: number }
}

/**
 * Names of errors that may resolve without a restart, for example when credentials are renewed or a clock is corrected.
 */
const temporary = ['TimeoutError', 'AbortError', 'ExpiredToken', 'ExpiredTokenException', 'RequestTimeTooSkewed']

function isAway(error: unknown): boolean {
  const { name = '', code = '', $metadata } = (error ?? {}) as SdkError
  const status = $metadata?.httpStatusCode ?? 0
  return temporary.includes(name) || networkError.test(code) || status >= 500 || status === 429
}
