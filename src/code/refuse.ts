import { type FieldError, Problem, type ProblemCode } from '../http/problems/problem.ts'

/** Thrown by the author's code, or by a context method that it calls, to refuse a request. */
export class Refusal extends Problem {
  /** The path of the collection whose field names appear in the errors. */
  of: string | undefined

  constructor(code: ProblemCode, detail: string, errors?: readonly FieldError[], cause?: unknown) {
    super(code, detail, { ...(errors && { errors: [...errors] }), cause })
  }
}

const detail = 'Some fields break a rule'

/**
 * Returns an error for the code to throw; it rejects the request with 422. The message completes a sentence that begins
 * with the field: `refuse('due', 'must not be in the past')`.
 */
export function refuse(field: string, message: string): Error {
  return new Refusal('VALIDATION_ERROR', detail, [{ field, message }])
}

/**
 * Returns an error for the code to throw; it rejects the request with 409, because the current state does not allow it.
 * The message is a whole sentence.
 */
refuse.conflict = (message: string): Error => new Refusal('STATE_CONFLICT', message)

/**
 * Runs a call, and rethrows its problems as `Refusal`. With `codes`, does so only for problems with one of these codes.
 */
export async function refusing<T>(path: string, run: () => Promise<T>, codes?: readonly ProblemCode[]): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof Problem) || error instanceof Refusal || (codes && !codes.includes(error.code))) throw error
    const refusal = new Refusal(error.code, error.message, error.errors, error)
    refusal.of = path
    throw refusal
  }
}
