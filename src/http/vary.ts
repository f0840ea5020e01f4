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
