import type { FastifyReply, FastifyRequest } from 'fastify'
import { Problem, type ProblemCode, type ProblemOptions } from '../http/problems/problem.ts'
import { routeConfig } from '../http/route-config.ts'

/** The response to a POST. It is built inside the transaction that performs the write, and sent after the commit. */
export interface WriteResponse<Body extends object = object> {
  status: number
  headers: Record<string, string>
  body: Body
}

/** An error response that is stored and replayed like a successful response. */
interface StoredProblem {
  problem: [code: ProblemCode, detail: string, options: ProblemOptions]
}

interface StoredResponse {
  digest: string
  answer: unknown
}

/**
 * Stores responses in the same transactions as the writes they report; `idempotency/store.ts` documents the guarantees.
 */
export interface ResponseStore {
  digest(value: unknown): string
  find(id: string): Promise<StoredResponse | undefined>
  claim(tx: unknown, id: string, digest: string): Promise<StoredResponse | 'busy' | undefined>
  keep(tx: unknown, id: string, answer: unknown): Promise<void>
  write<T>(unit: (tx: unknown) => Promise<T>): Promise<T>
}

/** A request's claim to be the first with its Idempotency-Key. */
export interface KeyClaim {
  /**
   * Runs the unit of work and stores its response in the same transaction. If another request has already used the key,
   * returns the response stored for that request instead. Throws if that request is still in progress or had a
   * different body.
   */
  run: <A extends WriteResponse | StoredProblem>(
    tx: unknown,
    unit: () => Promise<A>,
  ) => Promise<A | WriteResponse | StoredProblem>
  isUsed: boolean
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `idempotency` for a POST with an Idempotency-Key; null for all other requests. */
    claim: KeyClaim | null
    /** The digests of the files in a form, by field. A response is replayed only to a request with the same files. */
    fileDigests?: Readonly<Record<string, string>>
  }
  interface FastifyContextConfig {
    /**
     * Checks whether a stored response may still be sent to this caller. If not, throws the problem to send instead.
     */
    checkReplay?: (request: FastifyRequest, response: WriteResponse) => Promise<void>
  }
}

/**
 * Performs the write of a POST. The unit of work produces the effect and the response in one transaction, which also
 * stores the response if the request has an Idempotency-Key. The reply is not changed before the commit.
 */
export async function idempotentWrite<Tx, Body extends object>(
  request: FastifyRequest,
  reply: Pick<FastifyReply, 'code' | 'headers'>,
  write: InTransaction<Tx>,
  unit: (tx: Tx) => Promise<WriteResponse<Body>>,
): Promise<Body> {
  const { claim } = request
  if (!claim) return send(reply, await write(unit))
  const answer = await write((tx) => claim.run(tx, () => unit(tx)))
  if (!('problem' in answer) && answer.headers[replayed] !== undefined) await checkReplay(request, answer)
  return send(reply, answer as WriteResponse<Body>)
}

/** The header that marks a replayed response. */
const replayed = 'idempotent-replayed'

/**
 * Throws if the caller can no longer read a row in a stored response: the row and the caller's rights may have changed
 * since the response was stored.
 */
export async function checkReplay(request: FastifyRequest, answer: WriteResponse | StoredProblem): Promise<void> {
  if (!('problem' in answer)) await routeConfig(request).checkReplay?.(request, answer)
}

/** Runs a unit of work in one transaction; may convert the errors that the unit throws. */
export type InTransaction<Tx> = <T>(unit: (tx: Tx) => Promise<T>) => Promise<T>

/** Creates a claim on a key for the request with this digest. */
export function claimOf(store: ResponseStore, id: string, digest: string): KeyClaim {
  const claim: KeyClaim = {
    isUsed: false,
    run: async (tx, unit) => {
      claim.isUsed = true
      const other = await store.claim(tx, id, digest)
      if (other === 'busy') throw inProgress()
      if (other !== undefined) return replayOf(other, digest)
      const answer = await unit()
      await store.keep(tx, id, answer)
      return answer
    },
  }
  return claim
}

/** Converts a problem to the representation in which it is stored. */
export const keyProblem = ({ code, message, errors, headers }: Problem): StoredProblem => ({
  problem: [code, message, { ...(errors && { errors }), ...(headers && { headers }) }],
})

/**
 * Returns the stored response, marked as replayed. Throws IDEMPOTENCY_KEY_REUSED if it belongs to a request with a different
 * body.
 */
export function replayOf(stored: StoredResponse, digest: string): WriteResponse | StoredProblem {
  if (stored.digest !== digest) {
    const errors = [{ field: 'Idempotency-Key', message: 'was already used with a different body' }]
    throw new Problem('IDEMPOTENCY_KEY_REUSED', 'This Idempotency-Key was already used with a different body', {
      errors,
    })
  }
  const answer = stored.answer as WriteResponse | StoredProblem
  const mark = { [replayed]: 'true' }
  if (!('problem' in answer)) return { ...answer, headers: { ...answer.headers, ...mark } }
  const [code, detail, options] = answer.problem
  return { problem: [code, detail, { ...options, headers: { ...options.headers, ...mark } }] }
}

/** Returns the 409 for a request whose key is in use by another request in flight. */
export const inProgress = () =>
  new Problem('IDEMPOTENCY_IN_PROGRESS', 'A request with this Idempotency-Key is still in progress', {
    headers: { 'retry-after': '1' },
  })

/** Applies a response to the reply and returns its body. If the response is an error, throws it. */
export function send<Body extends object>(
  reply: Pick<FastifyReply, 'code' | 'headers'>,
  answer: WriteResponse<Body> | StoredProblem,
): Body {
  if ('problem' in answer) throw new Problem(...answer.problem)
  reply.code(answer.status).headers(answer.headers)
  return answer.body
}
