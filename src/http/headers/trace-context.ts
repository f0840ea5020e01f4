import type { IncomingHttpHeaders } from 'node:http'

/**
 * W3C Trace Context (Level 1). A context is stored and passed on as a single text: the value of `traceparent`, followed
 * by a space and the value of `tracestate` if there is one.
 */
const parentForm = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const parentLength = 55
const zeros = /^0+$/

const maxStateLength = 512
const maxStateMembers = 32
/** A member of `tracestate` (§3.3.1.3): a key, or a tenant and a system, and a value of printable ASCII. */
const stateMember =
  /^([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/

/**
 * Returns the trace context of a request; null without a valid `traceparent` (§3.2). A version above 00 must begin with
 * the fields of version 00; any further fields are ignored. Ignores a `tracestate` that is invalid or longer than 512
 * characters.
 */
export function traceOf(headers: IncomingHttpHeaders): string | null {
  const parent = headers.traceparent
  if (typeof parent !== 'string') return null
  const [, version, traceId, parentId, flags, rest] = parentForm.exec(parent) ?? []
  if (traceId === undefined || parentId === undefined || flags === undefined) return null
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null
  if (zeros.test(traceId) || zeros.test(parentId)) return null
  return withState(traceparent(traceId, parentId, isSampledFlag(flags)), headers.tracestate)
}

function withState(parent: string, state: unknown): string {
  if (typeof state !== 'string' || state.length > maxStateLength) return parent
  const members = state.split(',').map((member) => member.trim())
  const filled = members.filter((member) => member !== '')
  const isValid = filled.length > 0 && members.length <= maxStateMembers && filled.every((one) => stateMember.test(one))
  return isValid ? `${parent} ${state}` : parent
}

/**
 * Returns whether the `sampled` flag is set. Level 1 defines no other flag; unknown flags are not propagated
 * (§3.2.2.5).
 */
const isSampledFlag = (flags: string) => (Number.parseInt(flags, 16) & 1) === 1

/** Builds a `traceparent` of version 00. */
const traceparent = (traceId: string, parentId: string, isSampled: boolean) =>
  `00-${traceId}-${parentId}-${isSampled ? '01' : '00'}`

/** Returns the 32 hex digits of the trace id. */
export const traceIdOf = (trace: string): string => trace.slice(3, 35)

/** Splits a context into its fields. */
export const traceFields = (trace: string) => ({
  traceId: traceIdOf(trace),
  spanId: trace.slice(36, 52),
  isSampled: trace.slice(53, parentLength) === '01',
  state: trace.slice(parentLength + 1) || null,
})

const spanBytes = 8

/**
 * Returns the context of a new span in the same trace: a new parent id, with the trace id, flag and state unchanged.
 */
export function childTrace(trace: string, random: (size: number) => Uint8Array): string {
  const { traceId, isSampled, state } = traceFields(trace)
  const spanId = Buffer.from(random(spanBytes)).toString('hex')
  // An id of all zeros would make the context invalid.
  return traceText({ traceId, spanId: zeros.test(spanId) ? `${spanId.slice(1)}1` : spanId, isSampled, state })
}

/** Joins the fields of a context. */
export const traceText = ({ traceId, spanId, isSampled, state }: ReturnType<typeof traceFields>): string =>
  `${traceparent(traceId, spanId, isSampled)}${state === null ? '' : ` ${state}`}`

/** Returns the header fields that propagate a context. */
export function traceHeaders(trace: string): Record<string, string> {
  const state = trace.slice(parentLength + 1)
  return { traceparent: trace.slice(0, parentLength), ...(state && { tracestate: state }) }
}
