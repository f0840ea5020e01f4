import type { FastifySchemaValidationError } from 'fastify'
import { withAllowedValues } from './allowed-values.ts'
import { type FieldError, Problem, type ProblemCode } from './problem.ts'

/** Fastify's error codes, mapped to the codes of this service. */
const codes: Record<string, [ProblemCode, string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['UNSUPPORTED_MEDIA_TYPE', 'Send the body as application/json'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['PAYLOAD_TOO_LARGE', 'The body is larger than the service accepts'],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['INVALID_INPUT', 'The body is empty; expected a JSON object'],
  FST_ERR_CTP_INVALID_JSON_BODY: ['INVALID_INPUT', 'The body is not valid JSON'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['INVALID_INPUT', 'Content-Length does not match the body'],
  FST_ERR_BAD_URL: ['INVALID_INPUT', 'The request target is not a valid URL path'],
  FST_ERR_MAX_PARAM_LENGTH: ['URI_TOO_LONG', 'A path segment is too long'],
  FST_ERR_NOT_FOUND: ['RESOURCE_NOT_FOUND', 'No resource exists at this path'],
}

interface FrameworkError {
  code?: string
  statusCode?: number
  validation?: FastifySchemaValidationError[]
  validationContext?: string
}

/**
 * Converts a framework or parser error to a `Problem`. Returns undefined for any other error; its details must not be
 * exposed.
 */
export function fromFramework(error: unknown): Problem | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { code = '', statusCode, validation, validationContext } = error as FrameworkError
  if (validation) return fromValidation(validation, validationContext ?? 'body')
  const known = codes[code]
  if (known) return new Problem(...known, { cause: error })
  if (statusCode === 413) return new Problem('PAYLOAD_TOO_LARGE', 'The body is larger than the service accepts')
  if (statusCode === 400) return new Problem('INVALID_INPUT', 'The body is not valid JSON', { cause: error })
  return undefined
}

/**
 * Returns the problem for validation failures: a 400 if the body lacks a field or has a value of the wrong JSON type,
 * or if another part of the request is invalid; otherwise a 422. Lists all failures that cause the returned status.
 */
export function fromValidation(found: FastifySchemaValidationError[], context: string): Problem {
  const failures = withAllowedValues(found)
  const missing = failures.filter(({ keyword }) => keyword === 'required').flatMap(missingFields)
  const malformed = failures.filter(({ keyword }) => keyword === 'type' || context !== 'body')
  const errors = [...missing, ...malformed.map(toFieldError)]
  if (malformed.length > 0) {
    return new Problem('INVALID_INPUT', `The ${partNames[context] ?? context} is malformed`, { errors })
  }
  if (missing.length > 0) {
    const fields = missing.map(({ field }) => field).join(', ')
    return new Problem('MISSING_REQUIRED_FIELD', `Missing required fields: ${fields}`, { errors })
  }
  return new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors: failures.map(toFieldError) })
}

const partNames: Record<string, string> = { params: 'path', querystring: 'query' }

const fieldName = (path: string) => path.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~')

const toFieldError = ({
  instancePath,
  keyword,
  message = 'is not valid',
}: FastifySchemaValidationError): FieldError => ({
  field: fieldName(instancePath) || 'body',
  message: keyword === 'pattern' ? 'has characters or a format that is not allowed' : message,
})

function missingFields({ instancePath, params }: FastifySchemaValidationError): FieldError[] {
  const names = (params.requiredProperties ?? [params.missingProperty]) as string[]
  return names.map((name) => ({ field: fieldName(`${instancePath}/${name}`), message: 'is required' }))
}
