import type { FastifyRequest } from 'fastify'
import type { Caller } from '../../http/policies/authenticate.ts'
import type { Queryable } from '../../storage/database.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { WriteBy } from '../writes/hooks.ts'
import type { Values } from '../writes/row-writes.ts'
import { withDuplicates } from '../writes/write-unit.ts'
import { type ItemWrite, itemError } from './items.ts'
import type { Results } from './references.ts'
import type { BatchItemResult } from './schemas.ts'
import type { Target } from './targets.ts'
import { type Rights, writeRow } from './write-row.ts'

export type RightsOf = (target: Target) => Rights

/** Evaluates the rules of all collections that a batch writes to. */
export async function rightsOf(writes: readonly ItemWrite[], caller: Caller): Promise<RightsOf> {
  const targets = new Set(writes.map(({ target }) => target))
  const evaluated = [...targets].map(async (target) => {
    const { accessOf, references, referrers, creator } = target.served
    const [access, reach, referring, creating] = await Promise.all([
      accessOf?.(caller),
      references?.reachOf(caller),
      referrers?.(caller),
      creator.callerOf?.(caller),
    ])
    return [target, { access, reach, referrers: referring, creating }] as const
  })
  const rights = new Map<Target, Rights>(await Promise.all(evaluated))
  return (target) => rights.get(target) as Rights
}

interface Batch {
  writes: readonly ItemWrite[]
  rights: RightsOf
}

/**
 * Runs the writes of a batch in order, in one transaction, and returns their results. If a write fails, throws its
 * problem, so that the transaction is rolled back.
 */
export async function makeWrites(
  request: FastifyRequest,
  tx: Queryable,
  { writes, rights }: Batch,
  by: WriteBy,
): Promise<BatchItemResult[]> {
  const made: (Row | undefined)[] = []
  const shown: (Values | undefined)[] = []
  for (const write of writes) {
    const row = await make(request, tx, { write, rights: rights(write.target), results: shown }, by)
    made.push(row)
    shown.push(row && write.target.represent(row, request).body)
  }
  const results: BatchItemResult[] = []
  for (const [at, write] of writes.entries()) {
    const row = made[at]
    const { access } = rights(write.target)
    const final = row && (await finalRow(write.target, tx, { row, access }, by))
    results.push(resultOf(write, row, final && write.target.represent(final, request)))
  }
  return results
}

interface Making {
  write: ItemWrite
  rights: Rights
  results: Results
}

async function make(
  request: FastifyRequest,
  tx: Queryable,
  { write, rights, results }: Making,
  by: WriteBy,
): Promise<Row | undefined> {
  // Errors thrown by `input` already contain the item.
  const { id, body } = write.input(results)
  let attempted: Values | undefined
  const attempt = (values: Values) => {
    attempted = values
  }
  const run = () => writeRow(request, tx, { write, rights, id, body, attempt }, by)
  try {
    return await withDuplicates(write.target.served, tx, { access: rights.access, attempted: () => attempted }, run)
  } catch (error) {
    throw itemError(write, error)
  }
}

/**
 * Returns a row as it is after the whole batch; undefined if it no longer exists or the caller can no longer read it.
 */
async function finalRow(
  { served: { rows, declaration } }: Target,
  tx: Queryable,
  { row, access }: Pick<Rights, 'access'> & { row: Row },
  { unit }: WriteBy,
): Promise<Row | undefined> {
  const isChanged = unit !== undefined && unit.changesOf({ table: declaration.table, id: row.id }) > 1
  return isChanged ? rows.readIn(tx, row.id, { precondition: access ? { passes: access.read } : {} }) : row
}

/** Returns the result of a write: `row` is the written row, and `shown` its representation after the whole batch. */
function resultOf(
  { method, target: { served } }: ItemWrite,
  row: Row | undefined,
  shown: ReturnType<Target['represent']> | undefined,
): BatchItemResult {
  if (row === undefined) return { status: 204 }
  if (method !== 'POST') return { status: 200, ...shown }
  return { status: 201, location: `${served.prefix}${served.declaration.path}/${row.id}`, ...shown }
}
