import type { FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { malformedQuery } from '../problems/problem.ts'
import { routeConfig } from '../route-config.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route supports `?fields=`. */
    fields?: boolean
  }
}

const maxNames = 50

/** Maps each member name to the selection inside that member, or to null for the whole member. */
type Tree = Map<string, Tree | null>

/** Sends partial responses, which contain only the requested fields; dotted paths select members of nested objects. */
export const partialResponse = fastifyPlugin(
  async (app) => {
    app.addHook('preSerialization', (request, reply, payload, done) => {
      if (reply.statusCode !== 200 || !isNarrowed(request)) return done(null, payload)
      done(null, pick(payload, parseFields((request.query as { fields?: unknown }).fields)))
    })
  },
  { name: 'partialResponse', dependencies: ['bodyParsing'] },
)

/** Returns true if the request selects fields with `?fields=` and its route supports that. */
export const isNarrowed = (request: FastifyRequest): boolean =>
  Boolean((request.query as { fields?: unknown }).fields && routeConfig(request).fields)

/** Parses a `fields` parameter. Throws INVALID_INPUT if the parameter is repeated or lists more than 50 names. */
export function parseFields(parameter: unknown): Tree {
  const names = typeof parameter === 'string' ? parameter.split(',').filter((name) => name !== '') : []
  if (typeof parameter !== 'string' || names.length > maxNames) {
    throw malformedQuery('fields', `must be a single list of at most ${maxNames} names`)
  }
  const tree: Tree = new Map()
  for (const name of names) addPath(tree, name.trim().split('.'))
  return tree
}

/** Adds a path to the tree. Selecting a whole member makes paths below that member redundant. */
function addPath(tree: Tree, path: string[]): void {
  let at = tree
  for (const name of path.slice(0, -1)) {
    const known = at.get(name)
    if (known === null) return
    const next: Tree = known ?? new Map()
    at.set(name, next)
    at = next
  }
  at.set(path.at(-1) as string, null)
}

/**
 * Returns the selected fields of a response, or an empty object if nothing matches. Applies the selection to each item
 * of a list.
 */
export function pick(value: unknown, tree: Tree | null): unknown {
  if (tree === null || tree.size === 0) return value
  return Array.isArray(value) ? value.map((item) => partOf(item, tree) ?? {}) : (partOf(value, tree) ?? {})
}

/** Returns the selected fields of a value; undefined if the value contains none of them. */
function partOf(value: unknown, tree: Tree | null): unknown {
  if (tree === null) return value
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) {
    const parts = value.map((item) => partOf(item, tree))
    // Items without a match become empty objects, so that positions are preserved.
    return parts.some((part) => part !== undefined) ? parts.map((part) => part ?? {}) : undefined
  }
  const picked: Record<string, unknown> = {}
  for (const [name, below] of tree) {
    const part = Object.hasOwn(value, name) ? partOf((value as Record<string, unknown>)[name], below) : undefined
    if (part !== undefined) picked[name] = part
  }
  return Object.keys(picked).length > 0 ? picked : undefined
}
