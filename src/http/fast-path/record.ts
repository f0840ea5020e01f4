import type { FastifyReply, FastifyRequest } from 'fastify'
import { bearerToken, type ReadApiKey, type Verify } from '../policies/authenticate.ts'
import type { FreshnessLines } from '../policies/caching.ts'
import { maxUncompressedBytes } from '../policies/compression.ts'
import { routeConfig } from '../route-config.ts'
import { HeadedResponse } from '../server/raw-headers.ts'
import { type CachedResponses, linesOf } from './cached-response.ts'
import { type Decision, parentOf } from './decision.ts'
import { isSameCaller, type RememberedCaller, type RememberedHeads } from './remembered-heads.ts'
import { type ResponseTemplate, templateOf } from './response-template.ts'

/**
 * Returns the `Decision.admit` for later requests from the same account. That function counts a request against the
 * limits and returns the limits' header lines; it returns null if the request might be delayed or refused.
 */
export type AdmitLater = (request: FastifyRequest) => Decision['admit']

export interface RememberOptions {
  heads: RememberedHeads
  fresh: FreshnessLines
  verify: Verify
  /** Looks up API keys. If omitted, API keys are disabled. */
  readApiKey: ReadApiKey | undefined
  admitLater: AdmitLater
}

/**
 * The request fields that the fast path accepts. Either no policy reads the field, or its effect depends only on its
 * value. If-None-Match, X-Request-Id and traceparent are read anew for each request.
 */
const knownFields = new Set([
  ...[
    'accept',
    'accept-encoding',
    'accept-language',
    'authorization',
    'cache-control',
    'connection',
    'dnt',
    'forwarded',
  ],
  ...['host', 'if-none-match', 'origin', 'pragma', 'priority', 'referer', 'sec-ch-ua', 'sec-ch-ua-mobile'],
  ...['sec-ch-ua-platform', 'sec-fetch-dest', 'sec-fetch-mode', 'sec-fetch-site', 'sec-gpc', 'traceparent'],
  ...['tracestate', 'user-agent', 'via', 'x-api-key'],
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-port', 'x-forwarded-proto', 'x-real-ip', 'x-request-id'],
])

/** Returns whether a request has only known fields, and none of them twice. */
export function hasKnownFields({ rawHeaders }: { rawHeaders: readonly string[] }): boolean {
  const names = new Set<string>()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase()
    if (!knownFields.has(name) || names.has(name)) return false
    names.add(name)
  }
  return true
}

/**
 * Remembers how the policies responded to a GET request, if the fast path would have sent the same response. Call this
 * after the response has been sent.
 */
export function rememberResponse(request: FastifyRequest, reply: FastifyReply, options: RememberOptions): void {
  const { heads, fresh, admitLater } = options
  const { raw, url, ip } = request
  const config = routeConfig(request)
  const { cached, limit, shed } = config as typeof config & { limit?: string }
  const response = reply.raw
  if (cached === undefined || limit !== undefined || !(response instanceof HeadedResponse)) return
  // A query may contain a slash, so the text after the last slash may not be the last segment of the path.
  if (cached.by === 'segment' && url.includes('?')) return
  const caller = callerOf(request, options)
  if (caller === null || !hasKnownFields(raw)) return
  const template = templateFor(request, response, cached, fresh)
  if (template === null) return
  const known = caller.verification && 'caller' in caller.verification ? caller.verification.caller : undefined
  const decision = {
    ...{ path: cached.by === 'segment' ? parentOf(url) : (url.split('?', 1)[0] as string), cached, shed, template },
    admit: admitLater(request),
    maxBytes: maxUncompressedBytes(request.headers['accept-encoding']),
    line: { route: (config as { url?: string }).url, address: ip, client: known?.clientId, subject: known?.subject },
  }
  heads.add(raw, decision, caller)
}

/** Returns the template of a cached response; null if the response is not cached, or has other header fields. */
function templateFor(
  { id, url, headers }: FastifyRequest,
  response: HeadedResponse,
  { by, find }: CachedResponses,
  fresh: FreshnessLines,
): ResponseTemplate | null {
  const cached = find(url, by === 'segment' ? parentOf(url).length : 0)
  const status = headers['if-none-match'] === undefined ? 200 : 304
  if (cached === undefined || response.statusCode !== status) return null
  return templateOf(response, id, linesOf(cached, status), fresh)
}

/**
 * Returns the caller to remember; null if the token, the API key or a preference might cause a different response next
 * time.
 */
function callerOf(request: FastifyRequest, { verify, readApiKey }: RememberOptions): RememberedCaller | null {
  const { headers, preferences } = request
  if (preferences !== null) return null
  const token = bearerToken(headers)
  const key = headers['x-api-key']
  const caller = {
    ...{ verification: request.caller, apiKey: request.apiKey },
    verify: token === undefined ? none : (verify.known?.(token) ?? unknown),
    readApiKey: typeof key === 'string' && readApiKey ? () => readApiKey.known?.(key) : none,
  }
  return isSameCaller(caller) ? caller : null
}

const none = () => null
const unknown = () => undefined
