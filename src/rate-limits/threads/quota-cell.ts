import type { Cell } from './cells.ts'

/** A value contains the usage in its lower 34 bits, and the number of the month in the bits above. */
const monthBit = 34n
const usedMask = 2n ** monthBit - 1n

/** Numbers the months consecutively; reads a month such as `2026-11`. */
const monthNumber = (name: string): bigint => BigInt(Number(name.slice(0, 4)) * 12 + Number(name.slice(5, 7)))

/** Returns whether the month of a value has ended by `atMs` (epoch ms). */
export const isMonthOver = (value: bigint, atMs: number): boolean =>
  value >> monthBit < monthNumber(new Date(atMs).toISOString())

const usedOf = (value: bigint) => Number(value & usedMask)
const packed = (period: string, used: number) => (monthNumber(period) << monthBit) | BigInt(Math.max(0, used))

/** Returns the usage in a month; initializes it to `used` if no thread has counted in this month yet. */
export function firstUse(cell: Cell, period: string, used: number): number {
  for (;;) {
    const before = cell.load()
    if (before >> monthBit === monthNumber(period)) return usedOf(before)
    if (cell.swap(before, packed(period, used))) return used
  }
}

/** A quota, with the usage that this thread last saw. */
interface SharedQuota {
  period: string
  used: number
  limit: number
}

/** Counts a call for all threads unless the quota is used up; updates `used`. Returns whether the call was counted. */
export function takeFromCell(quota: SharedQuota, cell: Cell): boolean {
  for (;;) {
    const used = firstUse(cell, quota.period, quota.used)
    if (used >= quota.limit) {
      quota.used = used
      return false
    }
    if (!cell.swap(packed(quota.period, used), packed(quota.period, used + 1))) continue
    quota.used = used + 1
    return true
  }
}

/** Adds to the usage of all threads; returns the resulting usage. */
export function changeCell({ period, used: known }: SharedQuota, cell: Cell, change: number): number {
  for (;;) {
    const used = firstUse(cell, period, known)
    if (cell.swap(packed(period, used), packed(period, used + change))) return Math.max(0, used + change)
  }
}
