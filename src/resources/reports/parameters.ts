import type { FastifySchemaValidationError } from 'fastify'
import type { TObject } from 'typebox'
import { nearest } from '../../http/nearest.ts'
import { inputValidator } from '../../http/policies/body-parsing.ts'
import { plain } from '../../openapi/schemas.ts'
import { defaultFiller, inputOf } from '../constraints/defaults.ts'
import { withStorageRules } from '../table.ts'

type Values = Readonly<Record<string, unknown>>

/**
 * Returns the JSON Schema of a report's parameters, and the function that validates them and fills in their defaults.
 */
export function declaredParameters(declared: TObject) {
  const storable = withStorageRules(declared)
  const input = inputOf(storable)
  const check = inputValidator(input, 'body')
  const complete = defaultFiller(storable)
  const names = Object.keys(declared.properties)
  return {
    parameters: { ...plain(input), additionalProperties: false },
    read: (parameters: unknown): { value: Values } | { failures: FastifySchemaValidationError[] } => {
      const unknown = Object.keys(Object(parameters)).filter((name) => !names.includes(name))
      const result = check(parameters)
      const failures = [...('error' in result ? result.error : []), ...unknown.map((name) => unknownName(name, names))]
      return failures.length > 0 ? { failures } : { value: complete({ ...Object(parameters) }) }
    },
  }
}

function unknownName(name: string, names: readonly string[]): FastifySchemaValidationError {
  const suggestion = nearest(name, names)
  const known = names.length > 0 ? `use one of ${names.join(', ')}` : 'this report has no parameters'
  const message = `is unknown: ${suggestion === undefined ? known : `did you mean ${suggestion}?`}`
  const instancePath = `/${name.slice(0, 40).replaceAll('~', '~0').replaceAll('/', '~1')}`
  return { keyword: 'rule', instancePath, message, params: {}, schemaPath: '' }
}
