import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { targetOf } from '../headers/vary.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Set by `listEnvelope`: the response wraps the list that the route declares in an object. */
    enclosed?: boolean
  }
}

/** A list as an object that also holds the page links of its Link header. */
interface Enclosed {
  items: unknown
  /** Paths of the neighbouring pages; null when there is none. */
  next: string | null
  prev: string | null
}

export interface EncloseOptions {
  /** Prefixes of the versions that return lists as objects. */
  prefixes: readonly string[]
}

/**
 * Wraps the lists of some versions as `{ items, next, prev }`: routes declare and return arrays in every version. `fields`
 * has already narrowed the items.
 */
export const listEnvelope = fastifyPlugin<EncloseOptions>(
  async (app, { prefixes }) => {
    if (prefixes.length === 0) return
    app.addHook('onRoute', (route) => {
      const list = listOf(route)
      if (list === undefined || !prefixes.some((prefix) => route.url.startsWith(`${prefix}/`))) return
      const response = { ...(route.schema?.response as object), 200: enclosedSchema(list, route) }
      route.schema = { ...route.schema, response }
      route.config = { ...route.config, enclosed: true } as RouteOptions['config']
      route.preSerialization = [...[route.preSerialization ?? []].flat(), encloseList]
    })
  },
  { name: 'enclose', dependencies: ['fields'] },
)

/** The list in the form of the route's version, for handlers that serialize it themselves. */
export const withListEnvelope = ({ routeOptions }: FastifyRequest, items: unknown, links: string): unknown =>
  routeOptions.config.enclosed ? enclosed(items, links) : items

function encloseList(
  _request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
): void {
  done(null, Array.isArray(payload) ? enclosed(payload, String(reply.getHeader('link') ?? '')) : payload)
}

const enclosed = (items: unknown, links: string): Enclosed => ({
  ...{ items, next: targetOf(links, 'next'), prev: targetOf(links, 'prev') },
})

type Declared = { type?: string; items?: object; properties?: Record<string, unknown> }

/** The list that a route declares, if it returns one. */
function listOf({ schema }: RouteOptions): Declared | undefined {
  const answer = (schema?.response as Record<string, Declared> | undefined)?.['200']
  return answer?.type === 'array' ? answer : undefined
}

function enclosedSchema(list: Declared, { schema, url }: RouteOptions) {
  const isPaged = (schema?.querystring as Declared | undefined)?.properties?.cursor !== undefined
  const page = (which: string) => ({
    type: ['string', 'null'],
    description: `Path of the ${which} page, as in the Link header`,
    examples: [isPaged && which === 'next' ? `${url}?cursor=WyJhYmMiLDAsMTAwXQ` : null],
  })
  const properties = { items: list, next: page('next'), prev: page('previous') }
  return { type: 'object', required: Object.keys(properties), properties }
}
