import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { targetOf } from '../headers/vary.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Set by `listEnvelope`: the answer is an object around the list that the route declares. */
    enclosed?: boolean
  }
}

/** A list as an object: the pages that its Link header leads to are in it too. */
interface Enclosed {
  items: unknown
  /** Paths of the neighbouring pages, null where there is none. */
  next: string | null
  prev: string | null
}

export interface EncloseOptions {
  /** The prefixes of the versions in which a list is an object. */
  prefixes: readonly string[]
}

/**
 * Every list of some versions as `{ items, next, prev }`: routes declare and return arrays, whatever the version. `fields`
 * has narrowed the items by then.
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

/** An answer that its handler has made into text itself, as its version has it. */
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

/** The declared list of a route, if it answers with one. */
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
