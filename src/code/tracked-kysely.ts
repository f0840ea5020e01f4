import { type CompiledQuery, type DatabaseConnection, Kysely, type QueryResult } from 'kysely'
import type { Queryable } from '../storage/database.ts'

type Execute = (tx: Queryable) => Promise<QueryResult<never>>

/**
 * Returns a Kysely instance whose statements are tracked like calls of context methods. Column names are as in the
 * database.
 */
export function trackedKysely(
  like: Queryable,
  run: (what: string, execute: Execute) => Promise<QueryResult<never>>,
): Kysely<Record<string, Record<string, unknown>>> {
  const executor = like.withoutPlugins().getExecutor()
  const refuse = (what: string) => async () => {
    throw new Error(`db has no ${what}: use transaction() of the context`)
  }
  const connection: DatabaseConnection = {
    executeQuery: (query: CompiledQuery) =>
      run('db', (tx) => tx.withoutPlugins().executeQuery(query) as never) as never,
    streamQuery: () => {
      throw new Error('db does not stream: read in pages')
    },
  }
  return new Kysely({
    dialect: {
      createAdapter: () => executor.adapter,
      createQueryCompiler: () => ({ compileQuery: (node, id) => executor.compileQuery(node, id) }),
      createIntrospector: () => {
        throw new Error('db has no introspection')
      },
      createDriver: () => ({
        init: async () => {},
        acquireConnection: async () => connection,
        beginTransaction: refuse('transactions'),
        commitTransaction: refuse('transactions'),
        rollbackTransaction: refuse('transactions'),
        releaseConnection: async () => {},
        destroy: async () => {},
      }),
    },
  })
}
