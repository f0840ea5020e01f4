import type { FastifyReply } from 'fastify'

/** Adds request headers to the Vary header, each once: caches keep the answers they lead to apart (RFC 9110 §12.5.5). */
export function addVary(reply: FastifyReply, names: string): void {
  if (!reply.hasHeader('vary')) {
    reply.header('vary', names)
    return
  }
  const known = `${reply.getHeader('vary')}`.split(', ')
  reply.header('vary', [...known, ...names.split(', ').filter((name) => !known.includes(name))].join(', '))
}

/** Adds links to the Link header, which may hold others already (RFC 8288 §3). */
export function addLink(reply: FastifyReply, links: string): FastifyReply {
  const present = reply.getHeader('link')
  return reply.header('link', present === undefined ? links : `${present}, ${links}`)
}

/** The target that a Link header of ours has for a relation; null where there is none. */
export const targetOf = (links: string, rel: string): string | null =>
  new RegExp(`<([^>]*)>; rel="${rel}"`).exec(links)?.[1] ?? null
