import { Problem } from '../problems/problem.ts'
import { meets, type Precondition, type Revised } from './conditional.ts'

/** Throws PRECONDITION_FAILED where a row that its transaction holds locked is not what the request demands (RFC 9110 §13.1). */
export function assertPrecondition(row: Revised, demands: Precondition): void {
  if (!meets(row, demands)) throw new Problem('PRECONDITION_FAILED', "It does not meet the request's conditions")
}
