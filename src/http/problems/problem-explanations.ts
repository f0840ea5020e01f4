import type { ProblemCode } from './problem.ts'

/** For each code, its meaning and what a developer can do about it. */
export const explanations: Record<ProblemCode, readonly [meaning: string, advice: string]> = {
  INVALID_INPUT: [
    'A part of the request cannot be read, or a value has the wrong type.',
    'Look at the errors in the answer: each names a place and what was expected there.',
  ],
  MISSING_REQUIRED_FIELD: ['The body lacks a field.', 'Send every field that the errors in the answer name.'],
  AUTH_REQUIRED: [
    'The request carries no access token.',
    'Get a token at the token endpoint and send it as Authorization: Bearer ACCESS_TOKEN, never in the address.',
  ],
  AUTH_TOKEN_EXPIRED: ['The access token was valid once.', 'Get a new one, then send the request again.'],
  AUTH_TOKEN_INVALID: [
    'The access token was issued by somebody else, was altered, or was revoked.',
    'Get a token from the authorization server of this service. Public paths refuse a wrong token too.',
  ],
  ACCESS_DENIED: [
    'The access token is valid but does not have the scope that the operation needs.',
    'Ask for a token with the scope that the WWW-Authenticate header names. The client must be allowed to have it.',
  ],
  PERMISSION_DENIED: ['A rule forbids this to the caller.', 'Ask an administrator of the service.'],
  RESOURCE_NOT_FOUND: [
    'Nothing is at this path, or it belongs to somebody else.',
    'Check the path and the identifier. What was removed does not come back under the same identifier.',
  ],
  METHOD_NOT_ALLOWED: ['The path exists, the method does not.', 'Use one of the methods in the Allow header.'],
  NOT_ACCEPTABLE: ['The service cannot answer in any form that the Accept header allows.', 'Widen the Accept header.'],
  REQUEST_TIMEOUT: ['The request did not arrive completely in time.', 'Send it again on a new connection.'],
  DUPLICATE_RESOURCE: [
    'Another resource has a value that only one may have.',
    'Use the resource that is there, or send another value for the field that the errors name.',
  ],
  IDEMPOTENCY_IN_PROGRESS: [
    'The same request was sent before and has not been answered yet.',
    'Wait as long as the Retry-After header says, then send it again under the same key to get its answer.',
  ],
  TASK_NOT_COMPLETED: ['The report is still being made.', 'Wait as long as the Retry-After header says.'],
  TASK_ALREADY_FINISHED: ['The task has ended, so it cannot be cancelled.', 'Delete it, or download its result.'],
  TASK_FAILED: ['The report could not be made.', 'The status of the task tells why. Create a new report.'],
  WEBHOOK_NOT_ACTIVE: [
    'The webhook is paused or disabled, so nothing is sent to it.',
    'Set its status to active, then send the request again.',
  ],
  WEBHOOK_LIMIT_REACHED: [
    'A client, or a user of it, may have a thousand webhooks, paused and disabled ones included.',
    'Delete one that is needed no more, or register for several events at once: report.* or *.',
  ],
  SECRET_ROTATION_IN_PROGRESS: [
    'The secret was rotated less than a day ago, and the one before it still signs: a third would end it early.',
    'Wait until previousSecretExpiresAt, or send immediate if an older secret has leaked: then none of them signs any more.',
  ],
  LAST_ADMINISTRATOR: [
    'After this change nobody could log in as an administrator any more. Nothing was done.',
    'Let another administrator choose a password first, then send the request again.',
  ],
  RESULT_EXPIRED: ['The result was kept for its time and then removed.', 'Create the report again.'],
  VERSION_RETIRED: [
    'This version of the interface was deprecated, and its time is over.',
    'Use the version that the Link header names as successor-version; its paths are the same behind their prefix.',
  ],
  PRECONDITION_FAILED: [
    'The resource is not in the state that the request demands; somebody may have changed it. Nothing was done.',
    'Read it again, apply your change to what you find and send it with the new ETag.',
  ],
  PAYLOAD_TOO_LARGE: ['The service does not read a body of this size.', 'Send less at once.'],
  URI_TOO_LONG: ['The path or the query is longer than the service reads.', 'Shorten it.'],
  UNSUPPORTED_MEDIA_TYPE: [
    'The operation does not read bodies of this media type.',
    'Send JSON, with Content-Type: application/json.',
  ],
  RANGE_NOT_SATISFIABLE: [
    'The range starts behind the end of the result.',
    'The Content-Range header tells the size. Ask for a range inside it, or for the whole.',
  ],
  EXPECTATION_FAILED: ['The Expect header asks for something other than 100-continue.', 'Leave the header out.'],
  VALIDATION_ERROR: [
    'The body can be read, but values in it break a rule, such as a length or a form.',
    'Correct all the fields that the errors in the answer name.',
  ],
  IDEMPOTENCY_KEY_REUSED: [
    'The key was used within the last 24 hours, by the same client on the same path, for a request with another body.',
    'Use a new Idempotency-Key for each operation, and the same one only to repeat it unchanged.',
  ],
  CALLBACK_URL_BLOCKED: [
    'The service does not call this address: it is not public, not https, or carries credentials.',
    'Give a public https address. The operator of the service can open others.',
  ],
  PRECONDITION_REQUIRED: [
    'This service changes a resource only for a client that has seen its current state.',
    'Read the resource and send its ETag in If-Match.',
  ],
  QUOTA_EXCEEDED: [
    'The account has used what it may use in a calendar month.',
    'Wait for the instant that X-Quota-Reset names, or ask the operator of the service for more.',
  ],
  RATE_LIMIT_EXCEEDED: ['The client sent too many requests in a short time.', 'Wait as long as Retry-After says.'],
  HEADERS_TOO_LARGE: ['The headers are larger than the service reads.', 'Send fewer or shorter headers.'],
  INTERNAL_ERROR: [
    'The fault is on our side. It was recorded under the request id of the answer.',
    'Send the request again; should it fail again, give the request id to the operator of the service.',
  ],
  NOT_IMPLEMENTED: [
    'The service knows no such method on any path, or no such transfer coding.',
    'Use a method that OPTIONS names, and no transfer coding but chunked.',
  ],
  SERVICE_UNAVAILABLE: ['The service is overloaded or has no store.', 'Wait as long as Retry-After says.'],
}
