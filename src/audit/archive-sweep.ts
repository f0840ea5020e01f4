import { setImmediate as turn } from 'node:timers/promises'
import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { iso } from '../storage/ids.ts'
import { maxSwept } from '../storage/sweep.ts'
import type { AuditRow } from '../storage/tables/administration.ts'
import { archivedEntries, writeArchive } from './archive-file.ts'
import {
  type Anchor,
  type ArchiveStore,
  archiveDigest,
  archiveKey,
  chainStart,
  monthAfter,
  newestArchive,
} from './archives.ts'
import { appendAudit, theService } from './chain.ts'

export interface AuditArchiveOptions {
  db: Database
  /** The same database, but with pauses between writes; used for deletions. Default: `db`. */
  paced?: Database
  store: ArchiveStore
  sealer: Sealer
  /** How many whole months before the current one stay in the database; null to archive nothing. */
  months: number | null
  /** Returns the time at which the current round of sweeps began, in epoch ms. */
  now: () => number
  /** Returns the current time, in epoch ms. */
  clock: () => number
}

const pageRows = 500
/** Maximum number of transactions per run, so that other sweeps also get to run. */
const maxSteps = 500
const hourMs = 3_600_000
const leaseMs = 10 * 60_000

/**
 * Returns a sweep that archives the audit log by month: it writes a month to the store, reads it back to verify it,
 * records the archive, and deletes its entries from the database. Each run archives at most one month and resolves to
 * the number of deleted entries. Only one node archives at a time; the others try again after ten minutes. After a
 * failure, or if nothing is left to archive, the next run is an hour later.
 */
export function archiveAudit(options: AuditArchiveOptions): () => Promise<number> {
  const { months, now } = options
  let notBefore = Number.NEGATIVE_INFINITY
  return async () => {
    if (months === null || now() < notBefore) return 0
    notBefore = now() + hourMs
    const lease = await claim(options)
    if (lease === null) {
      notBefore = now() + leaseMs
      return 0
    }
    try {
      const month = await nextMonth(options, lease, months)
      if (month !== null) await archiveMonth(options, lease, month)
      const { deleted, isEnd } = await deleteArchived(options.paced ?? options.db)
      if (month !== null || !isEnd) notBefore = Number.NEGATIVE_INFINITY
      return deleted
    } finally {
      await lease.end()
    }
  }
}

interface Lease {
  /** Extends the lease if half of it is over; rejects if another node has taken over. */
  extend: () => Promise<void>
  end: () => Promise<unknown>
}

/** Claims the right to archive; null if another node has it. */
async function claim({ db, clock }: AuditArchiveOptions): Promise<Lease | null> {
  const head = (tx: Queryable, until: string | null) =>
    tx.updateTable('auditHead').set({ archivingUntil: until }).where('id', '=', 1)
  let until = iso(clock() + leaseMs)
  const claimed = await db.write((tx) =>
    head(tx, until)
      .where((row) => row.or([row('archivingUntil', 'is', null), row('archivingUntil', '<', iso(clock()))]))
      .executeTakeFirst(),
  )
  if (claimed.numUpdatedRows === 0n) return null
  const change = (next: string | null) =>
    db.write((tx) => head(tx, next).where('archivingUntil', '=', until).executeTakeFirst())
  return {
    extend: async () => {
      if (clock() < Date.parse(until) - leaseMs / 2) return
      const next = iso(clock() + leaseMs)
      const { numUpdatedRows } = await change(next)
      if (numUpdatedRows === 0n) throw new Error('Another node archives the audit log')
      until = next
    },
    end: () => change(null),
  }
}

/** A month to archive: the position just before its first entry, and the position of its last entry. */
interface Month {
  month: string
  after: Anchor
  last: Anchor
}

/** Returns the oldest month that is to be archived; null if there is none. */
async function nextMonth({ db, now }: AuditArchiveOptions, lease: Lease, months: number): Promise<Month | null> {
  const archive = await newestArchive(db.read)
  const after = archive ? { sequence: archive.lastSequence, hash: archive.lastHash } : chainStart
  let month: string | null = null
  let last = after
  for await (const { sequence, hash, at } of entriesAfter(db, after.sequence, lease)) {
    const own = at.slice(0, 7)
    // If an entry was written after its month had been archived, it belongs to the next archive.
    month ??= archive && own <= archive.month ? monthAfter(archive.month) : own
    if (month >= monthAfter(iso(now()).slice(0, 7), -months)) return null
    if (own > month) break
    last = { sequence, hash }
  }
  return month === null ? null : { month, after, last }
}

/** Reads the entries after a sequence number, in order and page by page. */
async function* entriesAfter({ read }: Database, after: number, lease: Lease): AsyncIterable<AuditRow> {
  for (let sequence = after; ; ) {
    await lease.extend()
    const page = read.selectFrom('auditEntries').selectAll().where('sequence', '>', sequence)
    const rows = await page.orderBy('sequence').limit(pageRows).execute()
    yield* rows
    const last = rows.at(-1)
    if (last === undefined) return
    sequence = last.sequence
    // Let requests run between pages, because reads on SQLite block the event loop.
    await turn()
  }
}

async function* entriesOf(db: Database, { after, last }: Month, lease: Lease): AsyncIterable<AuditRow> {
  for await (const row of entriesAfter(db, after.sequence, lease)) {
    yield row
    if (row.sequence >= last.sequence) return
  }
}

/**
 * Archives a month. If the process ends early, the next run writes the file again. Two nodes that archived the same
 * month would write the same entries, and only the first could record the archive.
 */
async function archiveMonth({ db, store, sealer, clock }: AuditArchiveOptions, lease: Lease, of: Month): Promise<void> {
  const { month, after, last } = of
  const key = archiveKey(month, last.hash)
  const { sizeBytes, sha256 } = await writeArchive(store, key, entriesOf(db, of, lease))
  const position = { firstSequence: after.sequence + 1, lastSequence: last.sequence }
  const hashes = { previousHash: after.hash, lastHash: last.hash }
  const about = { month, key, ...position, ...hashes, sizeBytes, sha256, archivedAt: iso(clock()) }
  const archive = { ...about, digest: archiveDigest(sealer, about) }
  for await (const _ of archivedEntries(store, sealer, archive)) await lease.extend()
  await db.write(async (tx) => {
    await tx.insertInto('auditArchives').values(archive).execute()
    const at = iso(clock())
    await appendAudit(tx, sealer, [{ ...theService, event: 'audit.archived', target: month, details: position, at }])
  })
}

/**
 * Deletes archived entries, oldest first, in small batches. The database rejects the deletion of entries that are not
 * archived.
 */
async function deleteArchived({ read, write }: Database): Promise<{ deleted: number; isEnd: boolean }> {
  const archived = (await newestArchive(read))?.lastSequence ?? 0
  let deleted = 0
  for (let step = 0; step < maxSteps; step++) {
    const oldest = read.selectFrom('auditEntries').select((row) => row.fn.min('sequence').as('sequence'))
    const { sequence } = await oldest.executeTakeFirstOrThrow()
    if (sequence === null || sequence > archived) return { deleted, isEnd: true }
    const last = Math.min(sequence + maxSwept - 1, archived)
    const { numDeletedRows } = await write((tx) =>
      tx.deleteFrom('auditEntries').where('sequence', '<=', last).executeTakeFirst(),
    )
    deleted += Number(numDeletedRows)
  }
  return { deleted, isEnd: false }
}
