import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { S3Client } from '@aws-sdk/client-s3'
import { maxDownloadsInAll, ResultsUnavailable } from './store.ts'

/** How long the store may take, and how many connections to it there may be. */
export interface S3Limits {
  /** Until a connection is established, in ms. */
  connectMs: number
  /** Until a request is answered, and then between two bytes, in ms. */
  silentMs: number
  /** Connections for requests and uploads. */
  requestSockets: number
  /** Connections for downloads, which hold theirs for as long as a client reads. */
  downloadSockets: number
}

export const s3Limits: S3Limits = {
  ...{ connectMs: 3_000, silentMs: 10_000 },
  ...{ requestSockets: 32, downloadSockets: maxDownloadsInAll },
}

export interface S3Clients {
  /** For uploads of any length: fails when nothing was sent or received for a while. */
  uploads: S3Client
  /** For short requests, by `within`. */
  requests: S3Client
  /** On connections of its own, so that downloads that stall hold up nothing else. */
  downloads: S3Client
}

/** Clients with the credentials, region and endpoint of the usual `AWS_…` variables. */
export function s3Clients(limits: S3Limits): S3Clients {
  const { requestSockets, downloadSockets, silentMs } = limits
  const requests = client(limits, requestSockets, silentMs)
  // A download that its client does not read is silent too: `timedReads` tells the two apart.
  return { uploads: requests, requests, downloads: client(limits, downloadSockets, 0) }
}

function client({ connectMs }: S3Limits, maxSockets: number, socketTimeout: number): S3Client {
  const agent = { keepAlive: true, maxSockets }
  return new S3Client({
    region: process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION ?? 'us-east-1',
    // Servers of one's own seldom have a host name for each bucket.
    forcePathStyle: process.env.AWS_ENDPOINT_URL_S3 !== undefined || process.env.AWS_ENDPOINT_URL !== undefined,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 3,
    requestHandler: {
      // Agents made by the client itself do not bound large uploads.
      ...{ httpAgent: new HttpAgent(agent), httpsAgent: new HttpsAgent(agent) },
      ...{ connectionTimeout: connectMs, socketTimeout },
    },
  })
}

/**
 * Runs a request of the store, attempts and pauses included, within so many ms. Throws `ResultsUnavailable` when that is
 * not enough, or when the store cannot take requests now.
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
    throw isAway(error) ? new ResultsUnavailable('The store of results does not answer', { cause: error }) : error
  } finally {
    // The signal would end a body that is still being read.
    clearTimeout(limit)
    signal?.removeEventListener('abort', end)
  }
}

const networkError = /^E(CONN|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN)/

interface SdkError {
  name?: string
  code?: string
  $metadata?: { httpStatusCode?: number }
}

function isAway(error: unknown): boolean {
  const { name = '', code = '', $metadata } = (error ?? {}) as SdkError
  const status = $metadata?.httpStatusCode ?? 0
  return ['TimeoutError', 'AbortError'].includes(name) || networkError.test(code) || status >= 500 || status === 429
}
