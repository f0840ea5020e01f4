import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { authorOf, callerOf } from '../../http/policies/authenticate.ts'
import { checkPostPreconditions } from '../../http/policies/conditional.ts'
import type { ProblemCode } from '../../http/problems/problem.ts'
import { idempotentWrite, type WriteResponse } from '../../idempotency/idempotent-write.ts'
import type { Database } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { Collection, CollectionOptions, Declaration } from '../declaration.ts'
import { readableRow } from '../writes/change.ts'
import { inUnit } from '../writes/unit.ts'
import { itemError, writesOf } from './items.ts'
import { makeWrites, rightsOf } from './run.ts'
import { type BatchItem, type BatchItemResult, batchBody, batchResult, maxItems } from './schemas.ts'
import { batchTargets, type Targets } from './targets.ts'

export interface BatchOptions {
  /** The collections of this version. */
  collections: readonly Collection[]
  /** Returns the options for writing to a collection, with the database that the batch uses. */
  optionsOf: (declaration: Declaration) => CollectionOptions
  db: Database
  now: () => number
  requireIfMatch: boolean
  /** Counts additional calls against the caller's limits. Rejects with a `Problem` if a limit is exceeded. */
  countCalls?: ((request: FastifyRequest, reply: FastifyReply, calls: number) => Promise<void>) | undefined
}

/** The error codes that items can cause, in addition to those of every route with a body. */
const problems: readonly ProblemCode[] = [
  ...(['ACCESS_DENIED', 'PERMISSION_DENIED', 'RESOURCE_NOT_FOUND'] as const),
  ...(['DUPLICATE_RESOURCE', 'RESOURCE_IN_USE', 'RESOURCE_LOCKED', 'STATE_CONFLICT', 'LAST_ADMINISTRATOR'] as const),
  ...(['PRECONDITION_FAILED', 'PRECONDITION_REQUIRED'] as const),
]

/** Maximum number of members in the body of a batch: an average of 100 per item. */
const maxMembers = 10_000

type Body = { items: BatchItem[] }

/** Serves `POST /api/batch`: several writes in one transaction, each under the same rules as a single request. */
export const batchRoutes: FastifyPluginAsync<BatchOptions> = async (app, options) => {
  const { collections, optionsOf, db, now, requireIfMatch, countCalls } = options
  const targets = batchTargets(collections, optionsOf, app.prefix)
  if (targets.writable.length === 0) return
  app.route<{ Body: Body }>({
    method: 'POST',
    url: '/api/batch',
    config: {
      ...({ scope: 'any', cache: 'none', revised: false } as const),
      ...{ problems, maxMembers },
      checkReplay: (request, response) => checkReadable(request, (request.body as Body).items, response, targets),
    },
    schema: { ...about, body: batchBody(targets.writable), response: { 200: batchResult(targets.writable) } },
    handler: async (request, reply) => {
      checkPostPreconditions(request)
      const { items } = request.body
      await countCalls?.(request, reply, items.length - 1)
      const writes = writesOf(request, items, targets, requireIfMatch)
      const caller = authorOf(request)
      const rights = await rightsOf(writes, caller)
      const by = { caller, now: new Date(now()).toISOString() }
      return idempotentWrite(request, reply, db.write, (tx) =>
        inUnit(tx, by, async (inside) => {
          const results = await makeWrites(request, tx, { writes, rights }, inside)
          return { status: 200, headers: {}, body: { items: results } }
        }),
      )
    },
  })
}

const about = {
  tags: ['batch'],
  operationId: 'writeBatch',
  summary: `Make up to ${maxItems} writes in one transaction`,
  description: `Makes all writes or none: if one of them is refused, the response is its error, whose \`errors\` name the item.
Each item requires the scope of the single request, and counts as a request. Safe to retry with an \`Idempotency-Key\`.`,
}

/**
 * Checks a stored response before it is sent again. Throws the problem of the first item whose row the caller can no
 * longer read.
 */
async function checkReadable(
  request: FastifyRequest,
  items: readonly BatchItem[],
  { body }: WriteResponse,
  { target }: Targets,
): Promise<void> {
  const results = (body as { items: BatchItemResult[] }).items
  for (const [at, { method, collection }] of items.entries()) {
    const id = results[at]?.body?.id as RowId | undefined
    const { served } = target(collection)
    if (id === undefined || !served.accessOf) continue
    try {
      await readableRow(served, id, await served.accessOf(callerOf(request)))
    } catch (error) {
      throw itemError({ at, method }, error)
    }
  }
}
