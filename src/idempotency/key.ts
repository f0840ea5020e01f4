import type { FastifyRequest } from 'fastify'
import { Problem } from '../http/problems/problem.ts'

const printable = /^[\x20-\x7e]{1,255}$/
/** A Structured Fields string (RFC 9651 §3.3.3). */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

/**
 * The Idempotency-Key of a request: 1 to 255 printable ASCII characters, either bare or as the Structured Fields string that
 * draft-ietf-httpapi-idempotency-key-header requires; both forms denote the same key. `requestIntegrity` has already
 * rejected repeated fields. Throws INVALID_INPUT for a malformed key.
 */
export function idempotencyKeyOf({ headers }: FastifyRequest): string | undefined {
  const sent = headers['idempotency-key']
  if (sent === undefined) return undefined
  const text = String(sent)
  const key = text.startsWith('"') ? quoted.exec(text)?.[1]?.replace(/\\(.)/g, '$1') : text
  if (key !== undefined && printable.test(key)) return key
  const errors = [{ field: 'Idempotency-Key', message: 'must be 1 to 255 printable ASCII characters' }]
  throw new Problem('INVALID_INPUT', 'The Idempotency-Key is malformed', { errors })
}

/** Sorts object members at all depths, so that equivalent JSON bodies have the same digest. */
export function sortMembers(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sortMembers)
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(members.map(([name, member]) => [name, sortMembers(member)]))
}
