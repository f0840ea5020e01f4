import type { FastifyRequest } from 'fastify'
import { unknownParameters } from './policies/unknown-parameters.ts'
import { type FieldError, Problem } from './problems/problem.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Allowed body members of a route whose schema does not list them: a patch may contain any member of the resource. */
    members?: readonly string[]
  }
}

interface Schema {
  properties?: Record<string, Schema>
  items?: Schema
}

/**
 * `handling=strict` (RFC 7240 §4.4): throws INVALID_INPUT naming every body member and query parameter that would otherwise
 * be ignored because it is unknown or read-only.
 */
export function rejectUnknownMembers(request: FastifyRequest): void {
  const { body, routeOptions } = request
  const { config, schema = {} } = routeOptions
  const { body: bodySchema, response } = schema as Record<string, Schema | undefined>
  const readable = responseMembers(response as Record<string, Schema> | undefined)
  const errors = [
    ...unknownParameters(request),
    ...unknownIn(body, config.members ? membersOnly(config.members) : bodySchema).map((field) => ({
      field,
      message: readable.has(field) ? 'is read-only' : 'is not a field',
    })),
  ] satisfies FieldError[]
  if (errors.length > 0)
    throw new Problem('INVALID_INPUT', 'The request has members or parameters that would be ignored', { errors })
}

const membersOnly = (names: readonly string[]): Schema => ({
  properties: Object.fromEntries(names.map((name) => [name, {}])),
})

/** The members of the responses; one that is not in the body schema is read-only. */
function responseMembers(response: Record<string, Schema> = {}): Set<string> {
  return new Set(Object.values(response).flatMap(({ properties = {} }) => Object.keys(properties)))
}

/** Paths of the members that a schema does not declare; a schema without named properties, such as a map, allows any. */
function unknownIn(value: unknown, schema: Schema | undefined, path = ''): string[] {
  if (typeof value !== 'object' || value === null || schema === undefined) return []
  if (Array.isArray(value)) return value.flatMap((item, at) => unknownIn(item, schema.items, `${path}${at}.`))
  const { properties } = schema
  if (properties === undefined) return []
  return Object.entries(value).flatMap(([name, member]) =>
    Object.hasOwn(properties, name) ? unknownIn(member, properties[name], `${path}${name}.`) : [path + name],
  )
}
