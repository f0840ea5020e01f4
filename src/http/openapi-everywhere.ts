import {
  type HeaderName,
  type HeaderParameterName,
  headerReferences,
  parameterReferences,
  type Reference,
  type Response,
} from './openapi-components.ts'
import { failures, type Operation } from './openapi-operation.ts'
import type { ProblemCode } from './problem.ts'

/** What the policies in front of every operation add to it: each new policy adds its own here. */
export interface Everywhere {
  /** Request headers that every operation heeds. */
  requestHeaders: readonly HeaderParameterName[]
  /** Headers of every answer. */
  headers: readonly HeaderName[]
  /** Codes that any request can be refused with. */
  problems: readonly ProblemCode[]
}

/** An operation with what every operation has; what it says itself comes first. */
export function withEverywhere(operation: Operation, { requestHeaders, headers, problems }: Everywhere): Operation {
  const common = headerReferences(headers)
  const withHeaders = (answer: Response | Reference) =>
    '$ref' in answer ? answer : { ...answer, headers: { ...common, ...answer.headers } }
  const answers = Object.entries(operation.responses).map(([status, answer]) => [status, withHeaders(answer)])
  return {
    ...operation,
    parameters: [...(operation.parameters ?? []), ...parameterReferences(requestHeaders)],
    responses: { ...failures(problems), ...Object.fromEntries(answers) },
  }
}
