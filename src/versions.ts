import type { FastifyInstance } from 'fastify'
import { books } from './resources/books.ts'
import type { Collection, CollectionOptions } from './resources/declaration.ts'
import { products } from './resources/products.ts'
import { activity } from './resources/reports/kinds/activity.ts'
import { deliveries } from './resources/reports/kinds/deliveries.ts'
import { inventory } from './resources/reports/kinds/inventory.ts'
import type { ReportKind } from './resources/reports/kinds.ts'
import { type ReportsOptions, reports } from './resources/reports/routes.ts'
import { tableReport } from './resources/reports/table-report.ts'
import { revisionsOf } from './resources/reports/tasks.ts'
import { watchTasks } from './resources/reports/watch.ts'
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

type VersionOptions = CollectionOptions & Omit<ReportsOptions, 'watch'> & WebhooksOptions

/** Serves every version under its prefixes. */
export async function serveVersions(app: FastifyInstance, options: VersionOptions): Promise<void> {
  const judgeCallback = (url: string) => judgeTarget(options.policy, url, options.lookup)
  const watch = watchTasks({ revisions: (ids) => revisionsOf(options.db, ids), later })
  app.addHook('preClose', async () => watch.close())
  for (const { prefixes, collections } of Object.values(versions)) {
    for (const prefix of prefixes) {
      for (const { plugin } of collections) await app.register(plugin, { ...options, prefix })
      await app.register(reports, { ...options, watch, judgeCallback, prefix })
      await app.register(webhooks, { ...options, prefix })
    }
  }
}

/** Runs something after a while; returns how to call it off. */
function later(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** The report types: one for each plain resource, over the fields that every reader of it may see, and a few more. */
export function reportKinds(): ReportKind[] {
  const collections = new Set(Object.values(versions).flatMap((version) => version.collections))
  const tables = [...collections].map(({ declaration }) => tableReport(reportOf(declaration)))
  return [...tables, inventory, activity, deliveries]
}
