import type { FastifyReply, FastifyRequest } from 'fastify'
import { Problem, type ProblemCode, type ProblemOptions } from '../http/problems/problem.ts'

/** The response of a POST: made inside the transaction of its effect, sent after the commit. */
export interface WriteResponse<Body extends object = object> {
  status: number
  headers: Record<string, string>
  body: Body
}

/** An error that is stored and replayed like a response. */
interface Refusal {
  problem: [code: ProblemCode, detail: string, options: ProblemOptions]
}

interface Kept {
  digest: string
  answer: unknown
}

/** Storage of responses and the transactions they are stored in; see `idempotency/store.ts` for the guarantees. */
export interface AnswerStore {
  digest(value: unknown): string
  find(id: string): Promise<Kept | undefined>
  claim(tx: unknown, id: string, digest: string): Promise<Kept | 'busy' | undefined>
  keep(tx: unknown, id: string, answer: unknown): Promise<void>
  write<T>(unit: (tx: unknown) => Promise<T>): Promise<T>
}

/** The right to be the first request to respond under a key. */
export interface Claim {
  /** Runs the unit and stores its response in the same transaction, or returns the response of another request. */
  run: <A extends WriteResponse | Refusal>(tx: unknown, unit: () => Promise<A>) => Promise<A | WriteResponse | Refusal>
  isUsed: boolean
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `idempotency` for a POST with an Idempotency-Key; null for all other requests. */
    claim: Claim | null
  }
}

/**
 * The single write of a POST: the unit produces the effect and the response in one transaction, and under an Idempotency-Key
 * stores the response in it too. The reply is not touched before the commit.
 */
export async function idempotentWrite<Tx, Body extends object>(
  request: Pick<FastifyRequest, 'claim'>,
  reply: Pick<FastifyReply, 'code' | 'headers'>,
  write: InTransaction<Tx>,
  unit: (tx: Tx) => Promise<WriteResponse<Body>>,
): Promise<Body> {
  const { claim } = request
  if (!claim) return send(reply, await write(unit))
  return send(reply, await write((tx) => claim.run(tx, () => unit(tx)) as Promise<WriteResponse<Body>>))
}

/** Runs a unit in one transaction; may translate the errors it throws. */
export type InTransaction<Tx> = <T>(unit: (tx: Tx) => Promise<T>) => Promise<T>

/** A claim on a key id of the store for the request with this digest. */
export function claimOf(store: AnswerStore, id: string, digest: string): Claim {
  const claim: Claim = {
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

/** A problem in the form that is stored. */
export const keyProblem = ({ code, message, errors, headers }: Problem): Refusal => ({
  problem: [code, message, { ...(errors && { errors }), ...(headers && { headers }) }],
})

/** The stored response, marked as replayed; throws IDEMPOTENCY_KEY_REUSED when it belongs to a different body. */
export function replayOf(kept: Kept, digest: string): WriteResponse | Refusal {
  if (kept.digest !== digest) {
    const errors = [{ field: 'Idempotency-Key', message: 'belongs to a request with another body' }]
    throw new Problem('IDEMPOTENCY_KEY_REUSED', 'This Idempotency-Key was sent with another body', { errors })
  }
  const answer = kept.answer as WriteResponse | Refusal
  const replayed = { 'idempotent-replayed': 'true' }
  if (!('problem' in answer)) return { ...answer, headers: { ...answer.headers, ...replayed } }
  const [code, detail, options] = answer.problem
  return { problem: [code, detail, { ...options, headers: { ...options.headers, ...replayed } }] }
}

/** The 409 for a request whose key is in use by a request in flight. */
export const inProgress = () =>
  new Problem('IDEMPOTENCY_IN_PROGRESS', 'A request with this Idempotency-Key is being answered', {
    headers: { 'retry-after': '1' },
  })

/** Writes a response to the reply and returns its body; throws an error response. */
export function send<Body extends object>(
  reply: Pick<FastifyReply, 'code' | 'headers'>,
  answer: WriteResponse<Body> | Refusal,
): Body {
  if ('problem' in answer) throw new Problem(...answer.problem)
  reply.code(answer.status).headers(answer.headers)
  return answer.body
}
