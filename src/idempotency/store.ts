import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { inSteps, maxSwept } from '../storage/sweep.ts'

/** An answer as it was kept, and a digest of the request it answers. */
export interface StoredResponse {
  digest: string
  answer: unknown
}

/** Answers that are repeated when their request is: each exists if and only if the write it tells of committed. */
export interface Answers {
  /** A keyed digest of any value that JSON can tell. */
  digest: (value: unknown) => string
  find: (id: string) => Promise<StoredResponse | undefined>
  /**
   * Takes an id inside the transaction that will keep its answer: undefined when it was free, else what is kept
   * there. Waits for a transaction that holds it; `busy`, after which only a rollback is left, when that takes long.
   */
  claim: (tx: Queryable, id: string, digest: string) => Promise<StoredResponse | 'busy' | undefined>
  keep: (tx: Queryable, id: string, answer: unknown) => Promise<void>
}

const keptMs = 24 * 3_600_000
const place = (id: string) => `answers:${id}`

/** The table of kept answers. They are sealed, for some hold a secret that is shown once; after 24 hours they are gone. */
export function storedResponses(db: Database, sealer: Sealer, now: () => number): Answers {
  const { select, take, fill } = statements(db)
  const forgotten = () => new Date(now() - keptMs).toISOString()
  const opened = (id: string, rows: Row[]): StoredResponse | undefined =>
    rows[0] && { digest: rows[0].digest, answer: JSON.parse(sealer.open(rows[0].sealed, place(id))) }
  return {
    digest: (value) => sealer.digest(JSON.stringify(value), 'answers'),
    find: async (id) => opened(id, await select.all([id, forgotten()])),
    claim: async (tx, id, digest) => {
      const at = new Date(now()).toISOString()
      const taken = await take.in(tx, [id, digest, '', at, forgotten()]).catch((error) => {
        if (db.engine.isLockTimeout(error)) return 'busy' as const
        throw error
      })
      if (taken === 'busy') return 'busy'
      return taken.rows.length > 0 ? undefined : opened(id, (await select.in(tx, [id, forgotten()])).rows)
    },
    keep: async (tx, id, answer) => void (await fill.in(tx, [sealer.seal(JSON.stringify(answer), place(id)), id])),
  }
}

type Row = { digest: string; sealed: string }

/** Compiled once; their parameters are given in the order in which they are named here. */
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
          // What is forgotten but not swept yet makes room.
          .where('answers.createdAt', '<=', ''),
      )
      .returning('id'),
  ),
  fill: db.prepare(db.read.updateTable('answers').set({ sealed: '' }).where('id', '=', '')),
})

/** Removes answers that are older than 24 hours; returns how many. */
export async function sweepAnswers(db: Database, now: () => number): Promise<number> {
  const before = new Date(now() - keptMs).toISOString()
  return inSteps(db, async (tx) => {
    const old = tx.selectFrom('answers').select('id').where('createdAt', '<=', before).limit(maxSwept)
    return Number((await tx.deleteFrom('answers').where('id', 'in', old).executeTakeFirst()).numDeletedRows)
  })
}
