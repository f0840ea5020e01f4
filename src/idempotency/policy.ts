import type { FastifyReply, FastifyRequest, RouteHandlerMethod, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { Problem } from '../http/problems/problem.ts'
import { type AnswerStore, claimOf, inProgress, keyProblem, replayOf, send } from './idempotent-write.ts'
import { idempotencyKeyOf, inOneOrder } from './key.ts'

/**
 * Idempotency-Key on every POST of the API (draft-ietf-httpapi-idempotency-key-header): the response to a completed request
 * is replayed with `Idempotent-Replayed`; 422 for a different body with the same key, 409 while the first request is in
 * flight. Handlers respond through `idempotentWrite`, which preserves the guarantee even if the process dies between an
 * effect and its response.
 */
export const idempotency = fastifyPlugin<{ answers: AnswerStore }>(
  async (app, { answers }) => {
    const running = new Set<string>()
    app.decorateRequest('claim', null)
    app.addHook('onRoute', (route) => {
      if (!takesKeys(route)) return
      // Before body validation (422): a malformed key makes the request malformed (400).
      route.preValidation = [checkKey, ...[route.preValidation ?? []].flat()]
      route.handler = underKey(route.handler, answers, running)
    })
  },
  { name: 'idempotency', dependencies: ['bodies'] },
)

/** A key is scoped to its caller, so the authorization server and public paths ignore keys. */
export const takesKeys = ({ method, config }: Pick<RouteOptions, 'method' | 'config'>): boolean =>
  method === 'POST' && config?.scope !== 'own' && config?.scope !== 'public'

function checkKey(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  if (request.headers['idempotency-key'] !== undefined) idempotencyKeyOf(request)
  done()
}

/**
 * Wraps a handler so that this process runs it only once at a time for each key; `idempotentWrite` detects requests handled
 * by other processes.
 */
function underKey(handler: RouteHandlerMethod, answers: AnswerStore, running: Set<string>): RouteHandlerMethod {
  return function run(request, reply) {
    const key = idempotencyKeyOf(request)
    if (key === undefined) return handler.call(this, request, reply)
    const id = answers.digest([...whereOf(request), key])
    if (running.has(id)) throw inProgress()
    running.add(id)
    const handle = async () => handler.call(this, request, reply) as Promise<object>
    return answerUnder(id, handle, answers, request, reply).finally(() => running.delete(id))
  }
}

/** The scope of a key: client, subject, method and path. */
function whereOf({ caller, method, url }: FastifyRequest): string[] {
  if (!caller || !('caller' in caller)) throw new Error('The route takes keys but does not require a caller')
  return [caller.caller.clientId, caller.caller.subject, method, url.split('?', 1)[0] as string]
}

async function answerUnder(
  id: string,
  handle: () => Promise<object>,
  answers: AnswerStore,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const digest = answers.digest(inOneOrder(request.body ?? null))
  const kept = await answers.find(id)
  if (kept) return send(reply, replayOf(kept, digest))
  const claim = claimOf(answers, id, digest)
  request.claim = claim
  try {
    const answered = await handle()
    if (!claim.isUsed) throw new Error(`POST ${request.routeOptions.url} does not respond through idempotentWrite`)
    return answered
  } catch (error) {
    if (!isFinal(error)) throw error
    return send(reply, await answers.write((tx) => claim.run(tx, async () => keyProblem(error))))
  }
}

/**
 * A conflict is the outcome of a valid request and is stored. Any other error, or one with Retry-After, leaves the key free:
 * nothing was started, and the corrected request may use the same key.
 */
const isFinal = (error: unknown): error is Problem =>
  error instanceof Problem && error.status === 409 && error.headers?.['retry-after'] === undefined
