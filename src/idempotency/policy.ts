import type { FastifyReply, FastifyRequest, RouteHandlerMethod, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { Problem } from '../http/problems/problem.ts'
import { checkReplay, claimOf, inProgress, keyProblem, type ResponseStore, replayOf, send } from './idempotent-write.ts'

/**
 * Supports Idempotency-Key on each route for which `acceptsKeys` is true (draft-ietf-httpapi-idempotency-key-header). A
 * stored response is replayed with `Idempotent-Replayed`. Reusing a key with a different body gets 422; a retry while
 * the first request is still in flight gets 409. Handlers respond through `idempotentWrite`, so that a write is not
 * repeated even if the process dies before it sends the response.
 */
export const idempotency = fastifyPlugin<{ answers: ResponseStore }>(
  async (app, { answers }) => {
    const running = new Set<string>()
    app.decorateRequest('claim', null)
    app.addHook('onRoute', (route) => {
      if (!acceptsKeys(route)) return
      // This runs before body validation (422), because a malformed key makes the request malformed (400).
      route.preValidation = [checkKey, ...[route.preValidation ?? []].flat()]
      route.handler = withKey(route.handler, answers, running)
    })
  },
  { name: 'idempotency', dependencies: ['bodyParsing'] },
)

/**
 * Returns whether a route accepts keys. Keys are scoped to the caller, so the authorization server and public paths ignore
 * them.
 */
export const acceptsKeys = ({ method, config }: Pick<RouteOptions, 'method' | 'config'>): boolean =>
  method === 'POST' && config?.scope !== 'own' && config?.scope !== 'public'

function checkKey(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  if (request.headers['idempotency-key'] !== undefined) idempotencyKeyOf(request)
  done()
}

/**
 * Wraps a handler so that this process handles only one request per key at a time; `idempotentWrite` detects concurrent
 * requests in other processes.
 */
function withKey(handler: RouteHandlerMethod, answers: ResponseStore, running: Set<string>): RouteHandlerMethod {
  return function run(request, reply) {
    const key = idempotencyKeyOf(request)
    if (key === undefined) return handler.call(this, request, reply)
    const id = answers.digest([...keyScope(request), key])
    if (running.has(id)) throw inProgress()
    running.add(id)
    const handle = async () => handler.call(this, request, reply) as Promise<object>
    return respondWithKey(id, handle, answers, request, reply).finally(() => running.delete(id))
  }
}

/** Returns the scope of a key: client, subject, method and path. */
function keyScope({ caller, method, url }: FastifyRequest): string[] {
  if (!caller || !('caller' in caller)) throw new Error('The route takes keys but does not require a caller')
  return [caller.caller.clientId, caller.caller.subject, method, url.split('?', 1)[0] as string]
}

async function respondWithKey(
  id: string,
  handle: () => Promise<object>,
  answers: ResponseStore,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { body = null, fileDigests } = request
  const digest = answers.digest(sortMembers(fileDigests ? [body, fileDigests] : body))
  const stored = await answers.find(id)
  if (stored) {
    const answer = replayOf(stored, digest)
    await checkReplay(request, answer)
    return send(reply, answer)
  }
  const claim = claimOf(answers, id, digest)
  request.claim = claim
  try {
    const result = await handle()
    if (!claim.isUsed) throw new Error(`POST ${request.routeOptions.url} does not respond through idempotentWrite`)
    return result
  } catch (error) {
    if (!isFinal(error)) throw error
    return send(reply, await answers.write((tx) => claim.run(tx, async () => keyProblem(error))))
  }
}

/**
 * Returns whether an error is stored as the response for its key. A 409 without Retry-After is the outcome of a valid
 * request, so it is stored. After any other error, nothing was written, so the client may use the key again, even for a
 * corrected request.
 */
const isFinal = (error: unknown): error is Problem =>
  error instanceof Problem && error.status === 409 && error.headers?.['retry-after'] === undefined

const printable = /^[\x20-\x7e]{1,255}$/
/** A Structured Fields string (RFC 9651 §3.3.3). */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

/**
 * Returns the Idempotency-Key of a request: 1 to 255 printable ASCII characters, either bare or as the Structured Fields
 * string required by draft-ietf-httpapi-idempotency-key-header; the quoted and unquoted spellings denote the same key.
 * `requestIntegrity` has already rejected repeated fields. Throws INVALID_INPUT for a malformed key.
 */
function idempotencyKeyOf({ headers }: FastifyRequest): string | undefined {
  const sent = headers['idempotency-key']
  if (sent === undefined) return undefined
  const text = String(sent)
  const key = text.startsWith('"') ? quoted.exec(text)?.[1]?.replace(/\\(.)/g, '$1') : text
  if (key !== undefined && printable.test(key)) return key
  const errors = [{ field: 'Idempotency-Key', message: 'must be 1 to 255 printable ASCII characters' }]
  throw new Problem('INVALID_INPUT', 'The Idempotency-Key is malformed', { errors })
}

/** Sorts object members at all depths, so that equivalent JSON bodies have the same digest. */
function sortMembers(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sortMembers)
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(members.map(([name, member]) => [name, sortMembers(member)]))
}
