import type { FastifyReply, FastifyRequest } from 'fastify'
import { Problem, type ProblemCode, type ProblemOptions } from '../http/problems/problem.ts'

/** What a POST answers: made inside the transaction of its effect, sent after it. */
export interface Answer<Body extends object = object> {
  status: number
  headers: Record<string, string>
  body: Body
}

/** A refusal that is kept and repeated like an answer. */
interface Refusal {
  problem: [code: ProblemCode, detail: string, options: ProblemOptions]
}

interface Kept {
  digest: string
  answer: unknown
}

/** Where answers are kept, and the transactions they are kept in; `db/answers.ts` says what each promises. */
export interface AnswerStore {
  digest(value: unknown): string
  find(id: string): Promise<Kept | undefined>
  claim(tx: unknown, id: string, digest: string): Promise<Kept | 'busy' | undefined>
  keep(tx: unknown, id: string, answer: unknown): Promise<void>
  write<T>(unit: (tx: unknown) => Promise<T>): Promise<T>
}

/** The right to answer the request that has a key first. */
export interface Claim {
  /** Runs the unit and keeps its answer in the same transaction, or returns what another request was answered. */
  run: <A extends Answer | Refusal>(tx: unknown, unit: () => Promise<A>) => Promise<A | Answer | Refusal>
  isUsed: boolean
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `idempotency` for a POST with an Idempotency-Key; null for every other request. */
    claim: Claim | null
  }
}

/**
 * The one write of a POST: the unit makes the effect and the answer in one transaction, and under an Idempotency-Key
 * the answer is kept in it too. Nothing of the answer is on the reply before the commit.
 */
export async function idempotentWrite<Tx, Body extends object>(
  request: Pick<FastifyRequest, 'claim'>,
  reply: Pick<FastifyReply, 'code' | 'headers'>,
  write: Write<Tx>,
  unit: (tx: Tx) => Promise<Answer<Body>>,
): Promise<Body> {
  const { claim } = request
  if (!claim) return send(reply, await write(unit))
  return send(reply, await write((tx) => claim.run(tx, () => unit(tx)) as Promise<Answer<Body>>))
}

/** Runs a unit in one transaction; may translate what it throws. */
export type Write<Tx> = <T>(unit: (tx: Tx) => Promise<T>) => Promise<T>

/** A claim on an id of the store for the request with this digest. */
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

/** The refusal as it is kept. */
export const refusalOf = ({ code, message, errors, headers }: Problem): Refusal => ({
  problem: [code, message, { ...(errors && { errors }), ...(headers && { headers }) }],
})

/** What was kept, marked as a repetition; throws IDEMPOTENCY_KEY_REUSED when it answers another body. */
export function replayOf(kept: Kept, digest: string): Answer | Refusal {
  if (kept.digest !== digest) {
    const errors = [{ field: 'Idempotency-Key', message: 'belongs to a request with another body' }]
    throw new Problem('IDEMPOTENCY_KEY_REUSED', 'This Idempotency-Key was sent with another body', { errors })
  }
  const answer = kept.answer as Answer | Refusal
  const replayed = { 'idempotent-replayed': 'true' }
  if (!('problem' in answer)) return { ...answer, headers: { ...answer.headers, ...replayed } }
  const [code, detail, options] = answer.problem
  return { problem: [code, detail, { ...options, headers: { ...options.headers, ...replayed } }] }
}

/** The refusal of a request whose twin is being answered. */
export const inProgress = () =>
  new Problem('IDEMPOTENCY_IN_PROGRESS', 'A request with this Idempotency-Key is being answered', {
    headers: { 'retry-after': '1' },
  })

/** Puts an answer on the reply and returns its body; throws a refusal. */
export function send<Body extends object>(
  reply: Pick<FastifyReply, 'code' | 'headers'>,
  answer: Answer<Body> | Refusal,
): Body {
  if ('problem' in answer) throw new Problem(...answer.problem)
  reply.code(answer.status).headers(answer.headers)
  return answer.body
}
