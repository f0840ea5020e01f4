import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { linkTarget } from '../headers/vary.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Set by `listEnvelope` if the response wraps the declared list in an object. */
    enclosed?: boolean
  }
}

/** A list wrapped in an object, with the page links from its Link header. */
interface Envelope {
  items: unknown
  /** Paths of the next and previous pages; null if the page does not exist. */
  next: string | null
  prev: string | null
}

export interface EnvelopeOptions {
  /** Path prefixes of the versions that return lists as objects. */
  prefixes: readonly string[]
}

/**
 * Wraps lists as `{ items, next, prev }` in the versions that return lists as objects; routes declare and return arrays in
 * all versions. `fields` has already been applied to the items.
 */
export const listEnvelope = fastifyPlugin<EnvelopeOptions>(
  async (app, { prefixes }) => {
    if (prefixes.length === 0) return
    app.addHook('onRoute', (route) => {
      const list = listOf(route)
      if (list === undefined || !prefixes.some((prefix) => route.url.startsWith(`${prefix}/`))) return
      const response = { ...(route.schema?.response as object), 200: envelopeSchema(list, route) }
      route.schema = { ...route.schema, response }
      route.config = { ...route.config, enclosed: true } as RouteOptions['config']
      route.preSerialization = [...[route.preSerialization ?? []].flat(), wrapList]
    })
  },
  { name: 'listEnvelope', dependencies: ['partialResponse'] },
)

/** Returns the list as the route's version represents it, for handlers that serialize lists themselves. */
export const withListEnvelope = ({ routeOptions }: FastifyRequest, items: unknown, links: string): unknown =>
  routeOptions.config.enclosed ? enclosed(items, links) : items

function wrapList(
  _request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
): void {
  done(null, Array.isArray(payload) ? enclosed(payload, String(reply.getHeader('link') ?? '')) : payload)
}

const enclosed = (items: unknown, links: string): Envelope => ({
  ...{ items, next: linkTarget(links, 'next'), prev: linkTarget(links, 'prev') },
})

type Declared = { type?: string; items?: object; properties?: Record<string, unknown> }

/** Returns the schema of the list that a route declares, if it returns a list. */
function listOf({ schema }: RouteOptions): Declared | undefined {
  const answer = (schema?.response as Record<string, Declared> | undefined)?.['200']
  return answer?.type === 'array' ? answer : undefined
}

function envelopeSchema(list: Declared, { schema, url }: RouteOptions) {
  const isPaged = (schema?.querystring as Declared | undefined)?.properties?.cursor !== undefined
  const page = (which: string) => ({
    type: ['string', 'null'],
    description: `Path of the ${which} page, as in the Link header`,
    examples: [isPaged && which === 'next' ? `${url}?cursor=WyJhYmMiLDAsMTAwXQ` : null],
  })
  const properties = { items: list, next: page('next'), prev: page('previous') }
  return { type: 'object', required: Object.keys(properties), properties }
}
