import type { FastifyInstance, FastifyRequest } from 'fastify'
import { nearest } from './nearest.ts'
import { type FieldError, Problem } from './problems/problem.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Body members that a route allows although its schema does not list them: a patch may contain any member of the
     * resource.
     */
    members?: readonly string[]
  }
}

interface Schema {
  properties?: Record<string, Schema>
  items?: Schema
}

/**
 * Implements `handling=strict` (RFC 7240 §4.4): throws INVALID_INPUT that lists every body member and query parameter that
 * would otherwise be ignored as unknown or read-only.
 */
export function rejectUnknownMembers(request: FastifyRequest): void {
  const { body, routeOptions } = request
  const { config, schema = {} } = routeOptions
  const { body: bodySchema, response } = schema as Record<string, Schema | undefined>
  const readable = responseMembers(response as Record<string, Schema> | undefined)
  const known = config.members ? membersOnly(config.members) : bodySchema
  throwIgnored([...unknownParameters(request), ...unknownMembers(body, known, readable)])
}

/**
 * Throws INVALID_INPUT that lists every body member that `known`, the schema of the body, does not declare. `shown` is
 * the schema of the response; members that only `shown` declares are reported as read-only.
 */
export const rejectUnknownIn = (body: unknown, known: object, shown: object): void =>
  throwIgnored(unknownMembers(body, known, responseMembers({ 200: shown })))

const unknownMembers = (body: unknown, known: Schema | undefined, readable: ReadonlySet<string>): FieldError[] =>
  unknownIn(body, known).map((field) => ({
    field,
    message: readable.has(field) ? 'is read-only' : 'is not a field',
  }))

function throwIgnored(errors: FieldError[]): void {
  if (errors.length > 0)
    throw new Problem('INVALID_INPUT', 'The request has members or parameters that would be ignored', { errors })
}

const membersOnly = (names: readonly string[]): Schema => ({
  properties: Object.fromEntries(names.map((name) => [name, {}])),
})

/** Returns the names of all response members. A member that is not in the body schema is read-only. */
function responseMembers(response: Record<string, Schema> = {}): Set<string> {
  return new Set(Object.values(response).flatMap(({ properties = {} }) => Object.keys(properties)))
}

/**
 * Returns the paths of members that a schema does not declare. A schema without named properties, such as a map, allows any
 * member.
 */
function unknownIn(value: unknown, schema: Schema | undefined, path = ''): string[] {
  if (typeof value !== 'object' || value === null || schema === undefined) return []
  if (Array.isArray(value)) return value.flatMap((item, at) => unknownIn(item, schema.items, `${path}${at}.`))
  const { properties } = schema
  if (properties === undefined) return []
  return Object.entries(value).flatMap(([name, member]) =>
    Object.hasOwn(properties, name) ? unknownIn(member, properties[name], `${path}${name}.`) : [path + name],
  )
}

/**
 * Makes the routes in this context reject undeclared query parameters with INVALID_INPUT and suggest the closest known
 * name. Otherwise, a misspelled filter would be ignored and the response would contain every row.
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
  // The list omits the operators of each field, such as `status[in]`.
  const plain = known.filter((one) => !one.includes('['))
  return suggestion === undefined ? `expected ${plain.join(', ')}` : `did you mean ${suggestion}?`
}
