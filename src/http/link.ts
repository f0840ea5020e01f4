import type { FastifyReply } from 'fastify'

/** Adds links to the Link header, which may hold others already (RFC 8288 §3). */
export function addLink(reply: FastifyReply, links: string): FastifyReply {
  const present = reply.getHeader('link')
  return reply.header('link', present === undefined ? links : `${present}, ${links}`)
}

/** The target that a Link header of ours has for a relation; null where there is none. */
export const targetOf = (links: string, rel: string): string | null =>
  new RegExp(`<([^>]*)>; rel="${rel}"`).exec(links)?.[1] ?? null
