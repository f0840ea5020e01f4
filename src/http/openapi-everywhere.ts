import type { HeaderName } from './openapi-components.ts'
import { failures } from './openapi-operation.ts'
import type { Operation } from './openapi-route.ts'
import type { ProblemCode } from './problem.ts'

/** What the policies in front of every operation add to it: each new policy adds its own here. */
export interface Everywhere {
  /** Headers of every response: the document describes them once, in words. */
  headers: readonly HeaderName[]
  /** Codes that any request can be refused with. */
  problems: readonly ProblemCode[]
}

/** An operation with the refusals that every operation has; what it says itself comes first. */
export const withEverywhere = (operation: Operation, { problems }: Everywhere): Operation => ({
  ...operation,
  responses: { ...failures(problems), ...operation.responses },
})
