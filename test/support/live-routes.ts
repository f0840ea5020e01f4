import type { FastifyInstance } from 'fastify'

export interface LiveRoute {
  method: string
  /** The path in Fastify's notation, such as `/users/:id`. */
  url: string
}

/** Returns the service's routes from Fastify's route tree, without OPTIONS, which every path supports. */
export function liveRoutes(app: FastifyInstance): LiveRoute[] {
  const parts: string[] = []
  const lines = app.printRoutes({ commonPrefix: false }).split('\n')
  return lines.flatMap((line) => {
    const [, indent, part, names = ''] = /^([│ ]*)[├└]── (\S+)(?: \((.*)\))?$/.exec(line) ?? []
    if (indent === undefined || part === undefined) return []
    parts.splice(indent.length / 4, Number.POSITIVE_INFINITY, part)
    const url = parts.join('')
    const methods = names.split(', ').filter((name) => name !== '' && name !== 'OPTIONS')
    return methods.map((method) => ({ method, url }))
  })
}
