import type { FastifyRequest } from 'fastify'
import { unknownParameters } from './policies/unknown-parameters.ts'
import { type FieldError, Problem } from './problems/problem.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The names a body may have, where its schema does not tell them: a patch has any of the resource's. */
    members?: readonly string[]
  }
}

interface Schema {
  properties?: Record<string, Schema>
  items?: Schema
}

/**
 * `handling=strict` (RFC 7240 §4.4): throws INVALID_INPUT naming every member of the body and every query parameter
 * that would otherwise be ignored, because nobody knows it or because only the service sets it.
 */
export function rejectUnknownMembers(request: FastifyRequest): void {
  const { body, routeOptions } = request
  const { config, schema = {} } = routeOptions
  const { body: bodySchema, response } = schema as Record<string, Schema | undefined>
  const shown = membersShown(response as Record<string, Schema> | undefined)
  const errors = [
    ...unknownParameters(request),
    ...unknownIn(body, config.members ? membersOnly(config.members) : bodySchema).map((field) => ({
      field,
      message: shown.has(field) ? 'is read-only' : 'is not a field',
    })),
  ] satisfies FieldError[]
  if (errors.length > 0) throw new Problem('INVALID_INPUT', 'The request has parts that would be ignored', { errors })
}

const membersOnly = (names: readonly string[]): Schema => ({
  properties: Object.fromEntries(names.map((name) => [name, {}])),
})

/** What a successful answer shows but a body may not set. */
function membersShown(response: Record<string, Schema> = {}): Set<string> {
  return new Set(Object.values(response).flatMap(({ properties = {} }) => Object.keys(properties)))
}

/** Paths of the members that a schema does not name; what has no named members, such as a map, may have any. */
function unknownIn(value: unknown, schema: Schema | undefined, path = ''): string[] {
  if (typeof value !== 'object' || value === null || schema === undefined) return []
  if (Array.isArray(value)) return value.flatMap((item, at) => unknownIn(item, schema.items, `${path}${at}.`))
  const { properties } = schema
  if (properties === undefined) return []
  return Object.entries(value).flatMap(([name, member]) =>
    Object.hasOwn(properties, name) ? unknownIn(member, properties[name], `${path}${name}.`) : [path + name],
  )
}
