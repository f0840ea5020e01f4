import type { FastifyInstance } from 'fastify'
import { books } from './resources/books.ts'
import type { CollectionOptions } from './resources/declaration.ts'
import { products } from './resources/products.ts'
import { users } from './resources/users.ts'

/** What each API version serves. A contract's bare path is the same route as its `/v1` twin and never moves. */
export const versions = {
  v1: { prefixes: ['', '/v1'], collections: [users, products, books] },
} as const

/** Serves the plain resources of every version under its prefixes. */
export async function serveCollections(app: FastifyInstance, options: CollectionOptions): Promise<void> {
  for (const { prefixes, collections } of Object.values(versions)) {
    for (const prefix of prefixes) {
      for (const { plugin } of collections) await app.register(plugin, { ...options, prefix })
    }
  }
}
