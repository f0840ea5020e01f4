import type { FastifySchemaValidationError } from 'fastify'

const maxNamed = 20

/** Returns a message such as `must be one of draft, sent, paid`, which lists at most 20 values. */
export function mustBeOneOf(values: readonly unknown[]): string {
  const named = values.slice(0, maxNamed).map(textOf).join(', ')
  if (values.length === 1) return `must be ${named}`
  const more = values.length - maxNamed
  return `must be one of ${named}${more > 0 ? ` or ${more} other values` : ''}`
}

/** Quotes a value that is empty or contains a comma, so that it cannot be mistaken for no value or several values. */
const textOf = (value: unknown) => (/^[^,]+$/.test(String(value)) ? String(value) : JSON.stringify(value))

/** Returns the values that the failed `enum` or `const` allows; undefined for failures of other keywords. */
const allowedBy = ({ keyword, params }: FastifySchemaValidationError): readonly unknown[] | undefined => {
  if (keyword === 'enum') return params.allowedValues as unknown[]
  return keyword === 'const' ? [params.allowedValue] : undefined
}

/**
 * Merges all failures of `enum` and `const` at the same location into one failure, whose message lists the allowed
 * values, and drops the failures of `anyOf` at that location.
 */
export function withAllowedValues(failures: FastifySchemaValidationError[]): FastifySchemaValidationError[] {
  const choices = Map.groupBy(
    failures.filter((failure) => allowedBy(failure) !== undefined),
    ({ instancePath }) => instancePath,
  )
  return failures.flatMap((failure) => {
    const here = choices.get(failure.instancePath)
    if (here === undefined) return [failure]
    if (failure === here[0]) {
      const values = new Set(here.flatMap((choice) => allowedBy(choice) ?? []))
      return [{ ...failure, keyword: 'enum', message: mustBeOneOf([...values]) }]
    }
    return failure.keyword === 'anyOf' || here.includes(failure) ? [] : [failure]
  })
}
