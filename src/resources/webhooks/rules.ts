import { type FieldError, Problem } from '../../http/problem.ts'
import { eventPatterns } from './event-types.ts'
import { type AddressPolicy, judgeTarget, type LookupAll } from './guard.ts'

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

/** Throws VALIDATION_ERROR naming every broken rule, or CALLBACK_URL_BLOCKED with the reason; asks the resolver. */
export async function checkRegistration(
  { event, callbackUrl, headers }: RegistrationBody,
  policy: AddressPolicy,
  lookup: LookupAll | undefined,
): Promise<void> {
  const errors = [...eventErrors(event), ...urlErrors(callbackUrl), ...headerErrors(headers ?? {})]
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
  const verdict = await judgeTarget(policy, callbackUrl, lookup)
  if (verdict.ok) return
  throw new Problem('CALLBACK_URL_BLOCKED', `The callback address ${verdict.reason}`, {
    errors: [{ field: 'callbackUrl', message: verdict.reason }],
  })
}

const eventErrors = (event: string): FieldError[] =>
  eventPatterns.includes(event) ? [] : [{ field: 'event', message: `must be one of ${eventPatterns.join(', ')}` }]

const urlErrors = (url: string): FieldError[] =>
  URL.canParse(url) ? [] : [{ field: 'callbackUrl', message: 'is not a valid URL' }]

const headerErrors = (headers: Record<string, string>): FieldError[] =>
  Object.entries(headers).flatMap(([name, value]) => {
    const field = `headers.${name}`
    if (!token.test(name)) return [{ field, message: 'is not a header name' }]
    if (reserved.test(name)) return [{ field, message: 'is set by the service' }]
    return printable.test(value) ? [] : [{ field, message: 'must be printable ASCII' }]
  })
