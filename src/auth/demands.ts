import type { Precondition, Revised } from '../http/conditional.ts'
import { Problem } from '../http/problem.ts'

/** Throws PRECONDITION_FAILED where a row that its transaction holds locked is not what the request demands (RFC 9110 §13.1). */
export function refuseOutdated({ revision, updatedAt }: Revised, demands: Precondition): void {
  const { matches = 'any', differs = [], unchangedBefore } = demands
  const isMet =
    (matches === 'any' || matches.includes(revision)) &&
    differs !== 'any' &&
    !differs.includes(revision) &&
    (unchangedBefore === undefined || updatedAt < unchangedBefore)
  if (!isMet) throw new Problem('PRECONDITION_FAILED', "It does not meet the request's conditions")
}
