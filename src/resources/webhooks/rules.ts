import { lacksScope } from '../../http/authorize.ts'
import { type AddressPolicy, judgeTarget, type LookupAll } from '../../http/guard.ts'
import type { Caller } from '../../http/identify.ts'
import { type FieldError, Problem } from '../../http/problem.ts'
import { type EventKinds, eventPatterns, scopesOfPattern } from './event-types.ts'

/** What a client sends to register, after its types were checked. */
export interface RegistrationBody {
  event: string
  callbackUrl: string
  description?: string
  headers?: Record<string, string>
  payloadStyle?: string
}

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/
const printable = /^[\t\x20-\x7e]*$/
// What describes the call itself: the signature, the body, its framing, its way.
const reserved =
  /^(webhook-.*|content-.*|host|user-agent|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect)$/i

interface Rules {
  events: EventKinds
  policy: AddressPolicy
  lookup?: LookupAll | undefined
}

/**
 * Throws VALIDATION_ERROR naming every broken rule, ACCESS_DENIED when the caller may not read what it wants to hear of,
 * or CALLBACK_URL_BLOCKED with the reason; asks the resolver.
 */
export async function checkRegistration(
  { event, callbackUrl, headers }: RegistrationBody,
  caller: Caller,
  { events, policy, lookup }: Rules,
): Promise<void> {
  const errors = [...eventErrors(event, events), ...urlErrors(callbackUrl), ...headerErrors(headers ?? {})]
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
  const missing = scopesOfPattern(events, event).find((scope) => !caller.scopes.has(scope))
  if (missing !== undefined) throw lacksScope(missing)
  const verdict = await judgeTarget(policy, callbackUrl, lookup)
  if (verdict.ok) return
  throw new Problem('CALLBACK_URL_BLOCKED', `The callback address ${verdict.reason}`, {
    errors: [{ field: 'callbackUrl', message: verdict.reason }],
  })
}

function eventErrors(event: string, events: EventKinds): FieldError[] {
  const patterns = eventPatterns(events)
  return patterns.includes(event) ? [] : [{ field: 'event', message: `must be one of ${patterns.join(', ')}` }]
}

const urlErrors = (url: string): FieldError[] =>
  URL.canParse(url) ? [] : [{ field: 'callbackUrl', message: 'is not a valid URL' }]

const headerErrors = (headers: Record<string, string>): FieldError[] =>
  Object.entries(headers).flatMap(([name, value]) => {
    const field = `headers.${name}`
    if (!token.test(name)) return [{ field, message: 'is not a header name' }]
    if (reserved.test(name)) return [{ field, message: 'is set by the service' }]
    return printable.test(value) ? [] : [{ field, message: 'must be printable ASCII' }]
  })
