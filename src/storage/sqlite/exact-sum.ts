import type { DatabaseSync } from 'node:sqlite'
import { withPoint } from '../rows/column-codec.ts'

// This module must not import Kysely, which would delay the start of each report thread.

/** Sums of the two halves cannot overflow: each value contributes less than 2³⁴ to either. */
export const half = 1_000_000_000

const sumOf = (high: unknown, low: unknown) => (high as bigint) * BigInt(half) + (low as bigint)

/** Defines the functions that the SQL of `exactSum` and `exactAverage` calls once per group. */
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
