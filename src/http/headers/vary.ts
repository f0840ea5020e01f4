import type { FastifyReply } from 'fastify'

/** Adds request header names to Vary without duplicates, so that caches store each variant separately (RFC 9110 §12.5.5). */
export function addVary(reply: FastifyReply, names: string): void {
  if (!reply.hasHeader('vary')) {
    reply.header('vary', names)
    return
  }
  const known = `${reply.getHeader('vary')}`.split(', ')
  reply.header('vary', [...known, ...names.split(', ').filter((name) => !known.includes(name))].join(', '))
}

/** Appends links to the Link header (RFC 8288 §3). */
export function addLink(reply: FastifyReply, links: string): FastifyReply {
  const present = reply.getHeader('link')
  return reply.header('link', present === undefined ? links : `${present}, ${links}`)
}

/**
 * Returns the target of a relation in a Link header written by this service; null if the relation is not in the header.
 */
export const linkTarget = (links: string, rel: string): string | null =>
  new RegExp(`<([^>]*)>; rel="${rel}"`).exec(links)?.[1] ?? null
