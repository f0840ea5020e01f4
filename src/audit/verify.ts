import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { ArchiveAltered, archivedEntries } from './archive-file.ts'
import { type Anchor, type ArchiveStore, archiveDigest, auditArchives, chainStart, newestArchive } from './archives.ts'
import { chainHash } from './chain.ts'

type Digest = Pick<Sealer, 'digest'>

/** The end of a valid chain, or the first entry that is altered or missing. */
export type AuditVerdict = ({ whole: true } & Anchor) | { whole: false; sequence: number; reason: string }

const batch = 1_000
const mismatch = 'does not match the given hash'

/**
 * Verifies the chain from the newest archived entry to the head. Also checks that the chain contains the anchor, unless
 * the anchor is an older entry. With `newest`, verifies only that many entries, and trusts the entry before them.
 */
export async function verifyAudit(
  { read }: Pick<Database, 'read'>,
  sealer: Digest,
  anchor?: Anchor,
  newest = Number.POSITIVE_INFINITY,
): Promise<AuditVerdict> {
  // Read the head first: entries added during the check come after it and are ignored.
  const head = await read.selectFrom('auditHead').selectAll().executeTakeFirstOrThrow()
  const broken = (sequence: number, reason: string): AuditVerdict => ({ whole: false, sequence, reason })
  const start = await archivedPosition(read, sealer)
  if ('reason' in start) return start
  if (anchor?.sequence === start.sequence && anchor.hash !== start.hash) return broken(anchor.sequence, mismatch)
  let position = await entryAt(read, head.sequence - newest, start)
  while (position.sequence < head.sequence) {
    const after = read.selectFrom('auditEntries').selectAll().where('sequence', '>', position.sequence)
    const rows = await after.where('sequence', '<=', head.sequence).orderBy('sequence').limit(batch).execute()
    if (rows[0]?.sequence !== position.sequence + 1) {
      // The next entries may have been archived since the last page.
      const archived = await archivedPosition(read, sealer)
      if ('reason' in archived) return archived
      if (archived.sequence <= position.sequence) return broken(position.sequence + 1, 'is missing')
      position = archived
      continue
    }
    for (const { hash, ...row } of rows) {
      const expected = position.sequence + 1
      if (row.sequence !== expected) return broken(expected, 'is missing')
      if (hash !== chainHash(sealer, row, position.hash)) return broken(expected, 'was altered')
      position = { sequence: expected, hash }
      if (anchor?.sequence === expected && anchor.hash !== hash) return broken(expected, mismatch)
    }
  }
  if (position.hash !== head.hash) return broken(head.sequence, 'does not match the stored head')
  const cutOff = anchor !== undefined && anchor.sequence > position.sequence
  return cutOff
    ? broken(position.sequence + 1, 'is missing: the log ends before the given entry')
    : { whole: true, ...position }
}

/** Returns the position of the newest archived entry. */
async function archivedPosition(
  read: Queryable,
  sealer: Digest,
): Promise<Anchor | Extract<AuditVerdict, { whole: false }>> {
  const archive = await newestArchive(read)
  if (archive === undefined) return chainStart
  const { key, lastSequence: sequence, lastHash: hash } = archive
  if (archive.digest === archiveDigest(sealer, archive)) return { sequence, hash }
  return { whole: false, sequence, reason: `is archived, but the record of ${key} was altered` }
}

/** Returns the position of an entry or, if the entry is archived or missing, of the newest archived entry. */
async function entryAt(read: Queryable, sequence: number, archived: Anchor): Promise<Anchor> {
  if (sequence <= archived.sequence) return archived
  const entry = read.selectFrom('auditEntries').select(['sequence', 'hash']).where('sequence', '=', sequence)
  return (await entry.executeTakeFirst()) ?? archived
}

/** The number of verified archives and their last position, or what was altered. */
export type ArchivesVerdict = ({ whole: true; archives: number } & Anchor) | { whole: false; reason: string }

/**
 * Verifies that the archives contain the chain from its start, without a gap between months. Also checks that they
 * contain the anchor, unless the anchor is a newer entry. Rejects if a file cannot be read.
 */
export async function verifyArchives(
  db: Pick<Database, 'read'>,
  sealer: Digest,
  store: Pick<ArchiveStore, 'open'>,
  anchor?: Anchor,
): Promise<ArchivesVerdict> {
  let position = chainStart
  const archives = await auditArchives(db)
  try {
    for (const archive of archives) {
      if (archive.firstSequence !== position.sequence + 1 || archive.previousHash !== position.hash) {
        return { whole: false, reason: `entry ${position.sequence + 1} is not at the start of ${archive.key}` }
      }
      for await (const { sequence, hash } of archivedEntries(store, sealer, archive)) {
        if (anchor?.sequence === sequence && anchor.hash !== hash) {
          return { whole: false, reason: `entry ${sequence} in ${archive.key} ${mismatch}` }
        }
        position = { sequence, hash }
      }
    }
    return { whole: true, archives: archives.length, ...position }
  } catch (error) {
    if (error instanceof ArchiveAltered) return { whole: false, reason: error.message }
    throw error
  }
}
