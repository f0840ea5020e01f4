import { type Generated, type RawBuilder, sql } from 'kysely'

/** What the validators of a row are made of. */
export interface Revisioned {
  /** Grows by one with each change; the strong ETag is made of it. */
  revision: number
  /** 1: an earlier revision was made in the same second, so that the date does not tell them apart (RFC 9110 §8.8.2.2). */
  sharesSecond: Generated<number>
  createdAt: string
  updatedAt: string
}

/** What a new row starts with. */
export const firstRevision = (at: string) => ({ revision: 1, sharesSecond: 0, createdAt: at, updatedAt: at })

/** What every change of a row sets besides: the only place that makes a revision of the one before. */
export function nextRevision(table: string, updatedAt: string) {
  // Named with its table, since the row that met a conflict has a second name.
  const before = (column: string): RawBuilder<unknown> => sql.ref(`${table}.${column}`)
  return {
    revision: sql<number>`${before('revision')} + 1`,
    sharesSecond: sql<number>`case when ${secondOf(before('updatedAt'))} = ${updatedAt.slice(0, 19)} then 1 else 0 end`,
    updatedAt,
  }
}

/** True of rows that were not changed after this second, fixed-width ISO text, and whose date is theirs alone. */
export const isUnmodifiedSince = (second: string) => sql<boolean>`
  (updated_at < ${second} or (${secondOf(sql`updated_at`)} = ${second.slice(0, 19)} and shares_second = 0))`

const secondOf = (column: RawBuilder<unknown>) => sql<string>`substr(${column}, 1, 19)`

/** Who made a row that only its maker may see: the client and the subject of the token. */
export interface Owned {
  ownerClient: string
  ownerSubject: string
}
