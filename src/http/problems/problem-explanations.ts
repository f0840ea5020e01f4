import type { ProblemCode } from './problem.ts'

/** For each error code, what it means and what a developer can do about it. */
export const explanations: Record<ProblemCode, readonly [meaning: string, advice: string]> = {
  INVALID_INPUT: [
    'A part of the request cannot be parsed, or a value has the wrong type.',
    'See the errors in the response: each names a field and what was expected there.',
  ],
  MISSING_REQUIRED_FIELD: [
    'A required field is missing from the body.',
    'Send every field that the errors in the response name.',
  ],
  AUTH_REQUIRED: [
    'The request has no access token.',
    'Get a token from the token endpoint and send it as Authorization: Bearer ACCESS_TOKEN, never in the URL.',
  ],
  AUTH_TOKEN_EXPIRED: ['The access token was valid but has expired.', 'Get a new one, then send the request again.'],
  AUTH_TOKEN_INVALID: [
    'The access token was issued by another server, was altered, or was revoked.',
    'Get a token from the authorization server of this service. An invalid token is rejected on public paths too.',
  ],
  ACCESS_DENIED: [
    'The access token is valid but does not have the scope that the operation requires.',
    'Request a token with the scope that the WWW-Authenticate header names. The client must be allowed to request it.',
  ],
  PERMISSION_DENIED: ['A rule forbids the caller to do this.', 'Ask an administrator of the service.'],
  RESOURCE_NOT_FOUND: [
    'There is no resource at this path, or it belongs to another account.',
    'Check the path and the id. The id of a deleted resource is never reused.',
  ],
  METHOD_NOT_ALLOWED: [
    'The path exists but does not support the method.',
    'Use one of the methods in the Allow header.',
  ],
  NOT_ACCEPTABLE: [
    'The service has no representation that the Accept and Accept-Encoding headers allow.',
    'Allow more media types or codings in these headers.',
  ],
  REQUEST_TIMEOUT: ['The request did not arrive completely in time.', 'Send it again on a new connection.'],
  DUPLICATE_RESOURCE: [
    'Another resource already has a value that must be unique.',
    'Use the existing resource, or send another value for the field that the errors name.',
  ],
  RESOURCE_IN_USE: [
    'Other resources refer to this one and forbid its deletion, or too many would be deleted with it. Nothing was done.',
    'Delete or change the resources that the errors name first, then send the request again.',
  ],
  STATE_CONFLICT: [
    'The resource is in a state in which the service does not allow this request. Nothing was done.',
    'Read the resource to see its state, and send the request again once the state allows it.',
  ],
  RESOURCE_LOCKED: [
    'The resource, or one that would be deleted or changed with it, is in a state that allows no changes. Nothing was done.',
    'Read the resource to see its state. No request of this kind will succeed while it lasts.',
  ],
  IDEMPOTENCY_IN_PROGRESS: [
    'A request with the same key was sent before and is still in progress.',
    'Wait as long as the Retry-After header says, then send the request again with the same key to get its response.',
  ],
  TASK_NOT_COMPLETED: ['The report is still being generated.', 'Wait as long as the Retry-After header says.'],
  TASK_ALREADY_FINISHED: ['The task has ended, so it cannot be cancelled.', 'Delete it, or download its result.'],
  TASK_FAILED: ['The report could not be generated.', 'The status of the task gives the reason. Create a new report.'],
  WEBHOOK_NOT_ACTIVE: [
    'The webhook is paused or disabled, so nothing is sent to it.',
    'Set its status to active, then send the request again.',
  ],
  WEBHOOK_LIMIT_REACHED: [
    'An account may have at most 1,000 webhooks, including paused and disabled ones.',
    'Delete one that is no longer needed, or register a webhook for several events at once: report.* or *.',
  ],
  SECRET_ROTATION_IN_PROGRESS: [
    'The secret was rotated less than a day ago, and the previous secret is still valid: another rotation would end it early.',
    'Wait until previousSecretExpiresAt, or send immediate if an older secret has leaked: then all older secrets stop being used at once.',
  ],
  LAST_ADMINISTRATOR: [
    'After this change, no administrator could log in. Nothing was changed.',
    'Have another administrator set a password first, then send the request again.',
  ],
  BACKUPS_NOT_CONFIGURED: [
    'No setting says when or where to make backups.',
    'Set PLINTH_BACKUP to a schedule, or PLINTH_BACKUP_URL to a folder or bucket, on every node, and restart the service.',
  ],
  BACKUP_IN_PROGRESS: [
    'A backup was requested or is being made. Only one is made at a time.',
    'Wait until it is completed or has failed, then send the request again.',
  ],
  BACKUP_UNAVAILABLE: [
    'The backup is not completed, or its file is in a folder of another node.',
    'Send the request to the node that the detail names, copy the file there, or store backups in a bucket.',
  ],
  BACKUP_NOT_ENCRYPTED: [
    'The file contains the master key and every other secret in plain form, so it is not sent.',
    'Set PLINTH_BACKUP_PASSPHRASE_FILE to encrypt later backups, or copy the file on the machine.',
  ],
  CHECK_IN_PROGRESS: [
    'A check reads all of the data, so only one runs at a time.',
    'Read the outcome of the check in progress, or wait until it has ended.',
  ],
  RESULT_EXPIRED: ['The result was stored for a limited time and then deleted.', 'Create the report again.'],
  VERSION_RETIRED: [
    'This API version was deprecated and has been retired.',
    'Use the version that the Link header names as successor-version; its paths are the same after the prefix.',
  ],
  PRECONDITION_FAILED: [
    'The resource is not in the state that the request requires; another client may have changed it. Nothing was changed.',
    'Read it again, apply your change to its current state and send it with the new ETag.',
  ],
  PAYLOAD_TOO_LARGE: ['The body is larger than the service accepts.', 'Split the request into smaller ones.'],
  URI_TOO_LONG: ['The path or the query is longer than the service accepts.', 'Shorten it.'],
  UNSUPPORTED_MEDIA_TYPE: [
    'The operation does not accept bodies of this media type.',
    'Send JSON, with Content-Type: application/json.',
  ],
  RANGE_NOT_SATISFIABLE: [
    'The range starts after the end of the result.',
    'The Content-Range header has the size. Request a range within it, or the whole result.',
  ],
  EXPECTATION_FAILED: ['The Expect header has a value other than 100-continue.', 'Omit the header.'],
  VALIDATION_ERROR: [
    'The body can be parsed, but some values violate a rule, such as a length or a format.',
    'Correct all the fields that the errors in the response name.',
  ],
  IDEMPOTENCY_KEY_REUSED: [
    'The same client used the key on the same path within the last 24 hours for a request with a different body.',
    'Use a new Idempotency-Key for each operation, and reuse it only to retry the same request.',
  ],
  CALLBACK_URL_BLOCKED: [
    'The service does not call this URL: it is not public, does not use https, or contains credentials.',
    'Use a public https URL. The operator of the service can allow others.',
  ],
  PRECONDITION_REQUIRED: [
    'This service changes a resource only if the client has seen its current state.',
    'Read the resource and send its ETag in If-Match.',
  ],
  QUOTA_EXCEEDED: [
    'The account has used up its quota for the calendar month.',
    'Wait until the time in X-Quota-Reset, or ask the operator of the service for a higher quota.',
  ],
  RATE_LIMIT_EXCEEDED: [
    'The client sent too many requests in a short time.',
    'Wait as long as the Retry-After header says.',
  ],
  HEADERS_TOO_LARGE: ['The headers are larger than the service accepts.', 'Send fewer or shorter headers.'],
  INTERNAL_ERROR: [
    'The service failed. The error was logged with the request id of the response.',
    'Send the request again; if it fails again, give the request id to the operator of the service.',
  ],
  NOT_IMPLEMENTED: [
    'The service does not support the method on any path, or does not support the transfer coding.',
    'Use a method that OPTIONS lists, and no transfer coding other than chunked.',
  ],
  SERVICE_UNAVAILABLE: [
    'The service is overloaded, shutting down, or cannot reach its data store.',
    'Wait as long as the Retry-After header says.',
  ],
}
