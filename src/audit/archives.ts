import type { Readable } from 'node:stream'
import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import type { AuditArchive } from '../storage/tables/administration.ts'

/**
 * Stores archives by key. Creating a file under an existing key replaces it; a file is not visible until it is finished.
 */
export interface ArchiveStore {
  create: (key: string) => Promise<{
    write: (chunk: Uint8Array) => Promise<void>
    /** Resolves when the file is durable, with its SHA-256 in base64. */
    finish: () => Promise<{ sizeBytes: number; sha256: string }>
    discard: () => Promise<void>
  }>
  /** Rejects if there is no such file. */
  open: (key: string) => Promise<Readable>
  /** Removes the unfinished file that a writer for this key left behind when it ended without `finish` or `discard`. */
  abandon: (key: string) => Promise<void>
}

/** A position in the chain. */
export interface Anchor {
  sequence: number
  hash: string
}

/** The position before the first entry. */
export const chainStart: Anchor = { sequence: 0, hash: '' }

const hashCharacters = 8

export const monthForm = /^\d{4}-(0[1-9]|1[0-2])$/

/**
 * Returns the key of a month's archive; `month` is a year and a month, such as `2026-01`. The hash of the last entry covers
 * the whole chain before it, so different archives have different keys, even if several services share a store.
 */
export const archiveKey = (month: string, lastHash: string): string =>
  `audit-${month}-${lastHash.slice(0, hashCharacters)}.ndjson.gz`

/** Returns the month that is `count` months after the given one; `count` may be negative. */
export function monthAfter(month: string, count = 1): string {
  const [year, number] = month.split('-').map(Number) as [number, number]
  return new Date(Date.UTC(year, number - 1 + count)).toISOString().slice(0, 7)
}

/**
 * Computes the keyed digest of an archive's record. Without the key, write access to the database is not enough to
 * forge a record.
 */
export function archiveDigest(sealer: Pick<Sealer, 'digest'>, archive: Omit<AuditArchive, 'digest'>): string {
  const { month, key, firstSequence, lastSequence, previousHash, lastHash, sizeBytes, sha256, archivedAt } = archive
  const content = [month, key, firstSequence, lastSequence, previousHash, lastHash, sizeBytes, sha256, archivedAt]
  return sealer.digest(JSON.stringify(content), 'audit archive')
}

/** Returns all archives, oldest first. */
export const auditArchives = ({ read }: Pick<Database, 'read'>): Promise<AuditArchive[]> =>
  read.selectFrom('auditArchives').selectAll().orderBy('month').execute()

/** Returns the archive of the latest month; undefined if there is none. */
export const newestArchive = (read: Queryable): Promise<AuditArchive | undefined> =>
  read.selectFrom('auditArchives').selectAll().orderBy('month', 'desc').limit(1).executeTakeFirst()
