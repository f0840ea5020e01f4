import { preconditionFailed } from '../problems/problem.ts'
import { meets, type Precondition, type Versioned } from './conditional.ts'

/**
 * Throws PRECONDITION_FAILED if a row does not meet the precondition (RFC 9110 §13.1). The transaction must already have
 * locked the row.
 */
export function assertPrecondition(row: Versioned, precondition: Precondition): void {
  if (!meets(row, precondition)) throw preconditionFailed('The resource')
}
