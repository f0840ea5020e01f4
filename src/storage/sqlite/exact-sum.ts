import type { DatabaseSync } from 'node:sqlite'
import { type RawBuilder, sql } from 'kysely'
import { withPoint } from '../rows/column-codec.ts'

/** Sums of the two halves cannot overflow: each value contributes less than 2³⁴ to either. */
const half = 1_000_000_000

/** The arguments from which the functions calculate the sum of a column. */
const halves = (column: RawBuilder<unknown>) => {
  const sumOf = (operator: string) => sql`coalesce(sum(${column} ${sql.raw(`${operator} ${half}`)}), 0)`
  return sql`${sumOf('/')}, ${sumOf('%')}`
}
const sumOf = (high: unknown, low: unknown) => (high as bigint) * BigInt(half) + (low as bigint)

/** The sum of an integer column as text; `sum` alone would overflow beyond 64 bits. */
export const exactSum = (column: RawBuilder<unknown>, scale: number): RawBuilder<unknown> =>
  sql`exact_sum(${halves(column)}, ${sql.raw(String(scale))})`

/** The average of an integer column as text: see `Engine.exactAverage`. */
export const exactAverage = (column: RawBuilder<unknown>, scale: number): RawBuilder<unknown> =>
  sql`exact_average(${halves(column)}, count(${column}), ${sql.raw(String(scale))})`

/** Defines the functions that `exactSum` and `exactAverage` call once per group. */
export function defineExactSums(db: DatabaseSync): void {
  const options = { useBigIntArguments: true, deterministic: true }
  db.function('exact_sum', options, (high, low, scale) => withPoint(String(sumOf(high, low)), Number(scale)))
  db.function('exact_average', options, (high, low, values, scale) => {
    const [sum, count] = [sumOf(high, low), values as bigint]
    if (count === 0n) return null
    const rounded = (200n * (sum < 0n ? -sum : sum) + count) / (2n * count)
    return withPoint(String(sum < 0n ? -rounded : rounded), Number(scale))
  })
}
