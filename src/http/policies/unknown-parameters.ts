import type { FastifyInstance, FastifyRequest } from 'fastify'
import { nearest } from '../nearest.ts'
import { type FieldError, Problem } from '../problems/problem.ts'

/**
 * Makes the routes of this context reject undeclared query parameters with INVALID_INPUT, suggesting the nearest known name.
 * Otherwise a misspelt filter would return every row.
 */
export function rejectUnknownParameters(app: FastifyInstance): void {
  app.addHook('preValidation', (request, _reply, done) => {
    const errors = unknownParameters(request)
    if (errors.length === 0) return done()
    done(new Problem('INVALID_INPUT', 'The query has unknown parameters', { errors }))
  })
}

/** Returns an error for each query parameter that the route does not declare. */
export function unknownParameters({ query, routeOptions }: FastifyRequest): FieldError[] {
  const { querystring } = (routeOptions.schema ?? {}) as { querystring?: { properties?: object } }
  const declared = querystring?.properties ?? {}
  const unknown = Object.keys(query as object).filter((name) => !Object.hasOwn(declared, name))
  return unknown.map((field) => ({ field, message: `is not a parameter: ${hintFor(field, Object.keys(declared))}` }))
}

function hintFor(name: string, known: readonly string[]): string {
  if (known.length === 0) return 'this operation takes none'
  const suggestion = nearest(name, known)
  return suggestion === undefined ? `expected ${known.join(', ')}` : `did you mean ${suggestion}?`
}
