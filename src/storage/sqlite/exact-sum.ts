import type { DatabaseSync } from 'node:sqlite'
import { type RawBuilder, sql } from 'kysely'
import { withPoint } from '../rows/column-codec.ts'

/** Sums of the two halves cannot overflow: each value contributes less than 2³⁴ to either. */
const half = 1_000_000_000

/** The sum of an integer column as text; `sum` alone would overflow beyond 64 bits. */
export function exactSum(column: RawBuilder<unknown>, scale: number): RawBuilder<unknown> {
  const sumOf = (operator: string) => sql`coalesce(sum(${column} ${sql.raw(`${operator} ${half}`)}), 0)`
  return sql`exact_sum(${sumOf('/')}, ${sumOf('%')}, ${sql.raw(String(scale))})`
}

/** Defines the function that `exactSum` calls once per group. */
export function defineExactSum(db: DatabaseSync): void {
  db.function('exact_sum', { useBigIntArguments: true, deterministic: true }, (high, low, scale) =>
    withPoint(String((high as bigint) * BigInt(half) + (low as bigint)), Number(scale)),
  )
}
