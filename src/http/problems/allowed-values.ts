import type { FastifySchemaValidationError } from 'fastify'

const maxNamed = 20

/** `must be one of draft, sent, paid`; of many values the first 20. */
export function mustBeOneOf(values: readonly unknown[]): string {
  const named = values.slice(0, maxNamed).map(textOf).join(', ')
  if (values.length === 1) return `must be ${named}`
  const more = values.length - maxNamed
  return `must be one of ${named}${more > 0 ? ` or ${more} other values` : ''}`
}

/** Quotes a value that could be mistaken for several or none. */
const textOf = (value: unknown) => (/^[^,]+$/.test(String(value)) ? String(value) : JSON.stringify(value))

/** The values that a failure of `enum` or `const` would allow. */
const allowedBy = ({ keyword, params }: FastifySchemaValidationError): readonly unknown[] | undefined => {
  if (keyword === 'enum') return params.allowedValues as unknown[]
  return keyword === 'const' ? [params.allowedValue] : undefined
}

/** Replaces the failures of `enum`, and of a union of constants, by one for each place, whose message names the values. */
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
