import type { FastifyInstance } from 'fastify'
import type { AccountRules } from '../code/accounts.ts'
import type { Action } from '../code/action.ts'
import { actionRoutes } from '../code/action-routes.ts'
import type { ServiceCode } from '../code/author-code.ts'
import type { Limiter } from '../rate-limits/limiter.ts'
import { batchRoutes } from '../resources/batch/routes.ts'
import type { Collection, CollectionOptions, Declaration } from '../resources/declaration.ts'

interface CollectionParts {
  shared: Omit<CollectionOptions, 'guard' | 'code' | 'related'> & { limiter?: Limiter }
  /** The collections of the definition. */
  all: readonly Declaration[]
  actions: readonly Action[]
  accounts: AccountRules
  code: ServiceCode
}

/** Adds the routes of the collections of a version, their actions, and batches of writes to them. */
export async function serveCollections(
  at: FastifyInstance,
  collections: readonly Collection[],
  { shared, all, actions, accounts, code }: CollectionParts,
): Promise<void> {
  const { limiter, now, requireIfMatch } = shared
  const related = { all, served: collections.map(({ declaration }) => declaration) }
  const ofAll = { ...shared, code: code.author, related }
  for (const one of collections) {
    const resource = { ...ofAll, guard: accounts.guardOf(one.declaration) }
    await one.plugin(at, resource)
    await actionRoutes(at, { actions, resource, one, code })
  }
  // A batch may delete a user, so it uses the database and the guard that invalidate cached tokens after the commit.
  const { db } = accounts
  const optionsOf = (of: Declaration) => ({ ...ofAll, db, guard: accounts.codeGuardsOf(of).ofCaller })
  await batchRoutes(at, { collections, optionsOf, db, now, requireIfMatch, countCalls: limiter?.admitMore })
}
