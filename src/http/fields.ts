import fastifyPlugin from 'fastify-plugin'
import { Problem } from './problem.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The answer can be narrowed with `?fields=`. */
    fields?: boolean
  }
}

const namesAllowed = 50

type Tree = Map<string, Tree>

/** Partial response: only the fields that were asked for and exist; dotted paths reach into objects. */
export const fields = fastifyPlugin(
  async (app) => {
    app.addHook('preSerialization', (request, reply, payload, done) => {
      const asked = (request.query as { fields?: unknown }).fields
      if (!asked || reply.statusCode !== 200 || !request.routeOptions.config.fields) return done(null, payload)
      done(null, pick(payload, wanted(asked)))
    })
  },
  { name: 'fields', dependencies: ['bodies'] },
)

/** The tree of names in a `fields` parameter; throws INVALID_INPUT when it is repeated or names too many. */
export function wanted(asked: unknown): Tree {
  const names = typeof asked === 'string' ? asked.split(',').filter((name) => name !== '') : []
  if (typeof asked !== 'string' || names.length > namesAllowed) {
    const errors = [{ field: 'fields', message: `must be one list of at most ${namesAllowed} names` }]
    throw new Problem('INVALID_INPUT', 'The query is malformed', { errors })
  }
  const tree: Tree = new Map()
  for (const name of names) {
    let at = tree
    for (const part of name.trim().split('.')) {
      const next: Tree = at.get(part) ?? new Map()
      at.set(part, next)
      at = next
    }
  }
  return tree
}

/** The part of a value that a tree of names covers; lists are narrowed item by item. */
export function pick(value: unknown, tree: Tree): unknown {
  if (tree.size === 0 || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((item) => pick(item, tree))
  const picked: Record<string, unknown> = {}
  for (const [name, below] of tree) {
    if (Object.hasOwn(value, name)) picked[name] = pick((value as Record<string, unknown>)[name], below)
  }
  return picked
}
