import type { SealedColumn } from '../storage/data-keys/sealed-columns.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { inSteps, maxSwept } from '../storage/sweep.ts'

/** A stored response, and a digest of the request to which it belongs. */
export interface StoredResponse {
  digest: string
  answer: unknown
}

/** Stored responses for replay. A response is stored if and only if the transaction of its write was committed. */
export interface ReplayStore {
  /** Returns a keyed digest of any JSON value. */
  digest: (value: unknown) => string
  find: (id: string) => Promise<StoredResponse | undefined>
  /**
   * Claims an id in the transaction that will store the response. Returns undefined if the id was unused, otherwise the
   * stored response. If another transaction has claimed the id, waits for that transaction; if the wait takes too long,
   * returns `busy`, and the caller must roll back.
   */
  claim: (tx: Queryable, id: string, digest: string) => Promise<StoredResponse | 'busy' | undefined>
  keep: (tx: Queryable, id: string, answer: unknown) => Promise<void>
}

const retentionMs = 24 * 3_600_000
const associatedData = (id: string) => `answers:${id}`

/** The column with the encrypted responses. */
export const sealedResponses: SealedColumn = {
  ...{ table: 'answers', column: 'sealed', key: ['id'] },
  locationOf: associatedData,
}

/**
 * Accesses the table of stored responses. Responses are encrypted, because some contain a secret that is returned only
 * once. They expire after 24 hours.
 */
export function storedResponses(db: Database, sealer: Sealer, now: () => number): ReplayStore {
  const { select, take, fill } = statements(db)
  const expiry = () => new Date(now() - retentionMs).toISOString()
  const opened = (id: string, rows: Row[]): StoredResponse | undefined =>
    rows[0] && { digest: rows[0].digest, answer: JSON.parse(sealer.open(rows[0].sealed, associatedData(id))) }
  return {
    digest: (value) => sealer.digest(JSON.stringify(value), 'answers'),
    find: async (id) => opened(id, await select.all([id, expiry()])),
    claim: async (tx, id, digest) => {
      const at = new Date(now()).toISOString()
      const claimed = await take.in(tx, [id, digest, '', at, expiry()]).catch((error) => {
        if (db.engine.isLockTimeout(error)) return 'busy' as const
        throw error
      })
      if (claimed === 'busy') return 'busy'
      return claimed.rows.length > 0 ? undefined : opened(id, (await select.in(tx, [id, expiry()])).rows)
    },
    keep: async (tx, id, answer) =>
      void (await fill.in(tx, [sealer.seal(JSON.stringify(answer), associatedData(id)), id])),
  }
}

type Row = { digest: string; sealed: string }

/** Prepares the statements; parameters are bound in the order in which they appear here. */
const statements = (db: Database) => ({
  select: db.prepare<Row>(
    db.read.selectFrom('answers').select(['digest', 'sealed']).where('id', '=', '').where('createdAt', '>', ''),
  ),
  take: db.prepare<{ id: string }>(
    db.read
      .insertInto('answers')
      .values({ id: '', digest: '', sealed: '', createdAt: '' })
      .onConflict((conflict) =>
        conflict
          .column('id')
          .doUpdateSet((row) => ({
            digest: row.ref('excluded.digest'),
            sealed: row.ref('excluded.sealed'),
            createdAt: row.ref('excluded.createdAt'),
          }))
          // An expired row that has not been deleted yet may be overwritten.
          .where('answers.createdAt', '<=', ''),
      )
      .returning('id'),
  ),
  fill: db.prepare(db.read.updateTable('answers').set({ sealed: '' }).where('id', '=', '')),
})

/** Deletes responses older than 24 hours and returns the number deleted. */
export async function deleteExpiredResponses(db: Database, now: () => number): Promise<number> {
  const before = new Date(now() - retentionMs).toISOString()
  return inSteps(db, async (tx) => {
    const old = tx.selectFrom('answers').select('id').where('createdAt', '<=', before).limit(maxSwept)
    return Number((await tx.deleteFrom('answers').where('id', 'in', old).executeTakeFirst()).numDeletedRows)
  })
}
