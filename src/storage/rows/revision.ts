import { type Generated, type RawBuilder, sql } from 'kysely'

/** The columns that determine the validators (ETag, Last-Modified) of a row. */
export interface Revisioned {
  /** Incremented by each change; the strong ETag contains it. */
  revision: number
  /** 1 if an earlier revision is from the same second, so that the date cannot distinguish them (RFC 9110 §8.8.2.2). */
  sharesSecond: Generated<number>
  createdAt: string
  updatedAt: string
}

/** Returns the bookkeeping columns of a new row. */
export const firstRevision = (at: string) => ({ revision: 1, sharesSecond: 0, createdAt: at, updatedAt: at })

/**
 * Returns the bookkeeping columns that every update sets. No other code increments a revision. `second` is `updatedAt`
 * truncated to the second.
 */
export function nextRevision(table: string, updatedAt: string, second = secondIn(updatedAt)) {
  // Qualified with the table, because in an upsert, the column name alone would be ambiguous.
  const before = (column: string): RawBuilder<unknown> => sql.ref(`${table}.${column}`)
  return {
    revision: sql<number>`${before('revision')} + 1`,
    sharesSecond: sql<number>`case when ${secondOf(before('updated_at'))} = ${second} then 1 else 0 end`,
    updatedAt,
  }
}

/**
 * Returns a condition that is true for rows last changed before this second (fixed-width ISO text), or during it if no
 * earlier revision is from the same second.
 */
export const isUnmodifiedSince = (second: string) => sql<boolean>`
  (updated_at < ${second} or (${secondOf(sql`updated_at`)} = ${secondIn(second)} and shares_second = 0))`

/** Truncates an instant (fixed-width ISO text) to the second. */
export const secondIn = (instant: string): string => instant.slice(0, 19)

const secondOf = (column: RawBuilder<unknown>) => sql<string>`substr(${column}, 1, 19)`

/** The owner of a row that only its creator may see: the client and subject of the token that created it. */
export interface Owned {
  ownerClient: string
  ownerSubject: string
}
