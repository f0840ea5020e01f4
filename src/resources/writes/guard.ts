import type { auditActor, Caller } from '../../http/policies/authenticate.ts'
import type { ProblemCode } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'

/** A change to one row, for a guard to check; `values` is null for a deletion. */
export interface GuardedChange {
  id: RowId
  values: Readonly<Record<string, unknown>> | null
  caller: Caller
}

/** The changed fields of a row, and who changed them. */
export interface RecordedChange {
  id: RowId
  fields: readonly string[]
  values: Readonly<Record<string, unknown>>
  caller: Caller
  /** The caller as recorded in the audit log. Has no address and request if the author's code made the change. */
  actor: Partial<ReturnType<typeof auditActor>>
}

/** Checks changes to rows against other tables, in the transaction of each change. */
export interface Guard {
  /** The error codes, besides 403, with which a guard may refuse a deletion. */
  removalProblems: readonly ProblemCode[]
  /**
   * Runs a change and returns its result, which is undefined if no row matched. Throws a `Problem` if the change is not
   * allowed.
   */
  change: <T>(tx: Queryable, change: GuardedChange, run: () => Promise<T | undefined>) => Promise<T | undefined>
  /** Records a change to fields in `Writers.recorded`, at the end of its transaction. */
  record?: (tx: Queryable, change: RecordedChange) => Promise<void>
}
