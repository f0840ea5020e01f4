import type { Caller } from '../http/policies/authenticate.ts'
import { lacksScope } from '../http/policies/authorize.ts'
import { type FieldError, Problem } from '../http/problems/problem.ts'
import { type AddressPolicy, checkTarget, type LookupAll } from '../http/ssrf-guard.ts'
import { urlErrors } from '../http/text-rules.ts'
import { type EventKinds, eventPatterns, scopesOfPattern } from './event-types.ts'

/** The body of a registration after schema validation. */
export interface RegistrationBody {
  event: string
  callbackUrl: string
  description?: string
  headers?: Record<string, string>
  payloadStyle?: string
  version?: string | undefined
}

/** The body of an update to a webhook: a merge patch (RFC 7396) of the writable fields. */
export interface RegistrationPatch {
  event?: string
  callbackUrl?: string
  description?: string | null
  headers?: Record<string, string | null> | null
  payloadStyle?: string
  version?: string
  status?: string
}

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/
const printable = /^[\t\x20-\x7e]*$/
// Headers that only the service may set: signature, body, framing, routing, trace.
const reserved =
  /^(webhook-.*|content-.*|host|user-agent|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|traceparent|tracestate)$/i

/** The event types, and the policy that decides which addresses may be called. */
export interface Rules {
  events: EventKinds
  policy: AddressPolicy
  lookup?: LookupAll | undefined
}

/**
 * Returns a function that lists violations of rules that the schema does not express. For a patch, checks only the
 * members present.
 */
export const registrationErrors =
  ({ events, versions }: { events: EventKinds; versions: readonly string[] }) =>
  ({ event, callbackUrl, headers, version }: Partial<RegistrationBody> | RegistrationPatch): FieldError[] => [
    ...(event === undefined ? [] : eventErrors(event, events)),
    ...(callbackUrl === undefined ? [] : urlErrors('callbackUrl', callbackUrl)),
    ...headerErrors(headers ?? {}),
    ...(version === undefined || versions.includes(version)
      ? []
      : [{ field: 'version', message: `must be one of ${versions.join(', ')}` }]),
  ]

/**
 * Throws ACCESS_DENIED if the caller may not read the subscribed events, or CALLBACK_URL_BLOCKED, with the reason, if
 * the callback URL or an address of its host is not allowed. For a patch, checks only the members present.
 */
export async function checkRegistration(
  { event, callbackUrl }: Partial<RegistrationBody> | RegistrationPatch,
  caller: Caller,
  rules: Rules,
): Promise<void> {
  if (event !== undefined) checkReadAccess(event, caller, rules.events)
  if (callbackUrl !== undefined) await checkCallback(callbackUrl, rules)
}

/** Throws ACCESS_DENIED unless the caller may read the pattern's events. */
export function checkReadAccess(event: string, { scopes }: Pick<Caller, 'scopes'>, events: EventKinds): void {
  const missing = missingScope(event, scopes, events)
  if (missing !== undefined) throw lacksScope(missing)
}

/** Returns a scope that the pattern requires and that the given scopes lack; undefined if there is none. */
export const missingScope = (event: string, scopes: ReadonlySet<string>, events: EventKinds): string | undefined =>
  scopesOfPattern(events, event).find((scope) => !scopes.has(scope))

const maxHeaders = 20

/** Throws VALIDATION_ERROR unless the patched headers would be valid in a registration. */
export function checkHeaders(headers: Record<string, string>): void {
  const isTooMany = Object.keys(headers).length > maxHeaders
  const errors = isTooMany
    ? [{ field: 'headers', message: `must have at most ${maxHeaders} headers` }]
    : headerErrors(headers)
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
}

async function checkCallback(callbackUrl: string, { policy, lookup }: Rules): Promise<void> {
  const verdict = await checkTarget(policy, callbackUrl, lookup)
  if (verdict.ok) return
  throw new Problem('CALLBACK_URL_BLOCKED', `The callback address ${verdict.reason}`, {
    errors: [{ field: 'callbackUrl', message: verdict.reason }],
  })
}

function eventErrors(event: string, events: EventKinds): FieldError[] {
  const patterns = eventPatterns(events)
  return patterns.includes(event) ? [] : [{ field: 'event', message: `must be one of ${patterns.join(', ')}` }]
}

const headerErrors = (headers: Record<string, string | null>): FieldError[] =>
  Object.entries(headers).flatMap(([name, value]) => {
    const field = `headers.${name}`
    if (!token.test(name)) return [{ field, message: 'is not a valid header name' }]
    if (reserved.test(name)) return [{ field, message: 'is reserved: the service sets this header itself' }]
    return value === null || printable.test(value) ? [] : [{ field, message: 'must be printable ASCII' }]
  })
