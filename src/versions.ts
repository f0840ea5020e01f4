import type { FastifyInstance } from 'fastify'
import type { Database } from './db/open.ts'
import { books } from './resources/books.ts'
import type { Collection, CollectionOptions } from './resources/declaration.ts'
import { products } from './resources/products.ts'
import { type ReportKind, tableReport } from './resources/reports/kinds.ts'
import { type ReportsOptions, reports } from './resources/reports/routes.ts'
import { reportOf } from './resources/show.ts'
import { users } from './resources/users.ts'
import { judgeTarget } from './resources/webhooks/guard.ts'
import { type WebhooksOptions, webhooks } from './resources/webhooks/routes.ts'

interface Version {
  /** A contract's bare path is the same route as its `/v1` twin and never moves. */
  prefixes: readonly string[]
  collections: readonly Collection[]
}

/** What each API version serves. */
export const versions: Record<string, Version> = {
  v1: { prefixes: ['', '/v1'], collections: [users, products, books] },
}

type VersionOptions = CollectionOptions & ReportsOptions & WebhooksOptions

/** Serves every version under its prefixes. */
export async function serveVersions(app: FastifyInstance, options: VersionOptions): Promise<void> {
  const judgeCallback = (url: string) => judgeTarget(options.policy, url, options.lookup)
  for (const { prefixes, collections } of Object.values(versions)) {
    for (const prefix of prefixes) {
      for (const { plugin } of collections) await app.register(plugin, { ...options, prefix })
      await app.register(reports, { ...options, judgeCallback, prefix })
      await app.register(webhooks, { ...options, prefix })
    }
  }
}

/** The report types: one for each plain resource, over the fields that every reader of it may see. */
export function reportKinds(db: Database): ReportKind[] {
  const collections = new Set(Object.values(versions).flatMap((version) => version.collections))
  return [...collections].map(({ declaration }) => tableReport({ db: db.read, ...reportOf(declaration) }))
}
