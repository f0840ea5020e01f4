import type { Readable } from 'node:stream'

/** A range of a result: the offsets of its first and last byte, both inclusive. */
export interface ByteRange {
  start: number
  end: number
}

/** A finished result: its length, and its SHA-256 in base64, as used in `Repr-Digest` and the ETag. */
export interface FinishedResult {
  sizeBytes: number
  sha256: string
}

/** A result being written; it cannot be opened before `finish`. */
export interface ResultWriter {
  /** Resolves when the next chunk may be written; rejects if this chunk or an earlier one could not be stored. */
  write: (chunk: Uint8Array | string) => Promise<void>
  /** Makes the result durable, verifies its size, and gives it its final name. */
  finish: () => Promise<FinishedResult>
  /** Discards an unfinished result completely; has no effect after `finish`. */
  discard: () => Promise<void>
  /** Returns the number of bytes written so far. */
  sizeBytes: () => number
}

/** Maximum number of concurrent downloads per process; a store must be able to open this many results at once. */
export const maxDownloadsInAll = 256

/** Thrown if the store does not respond or cannot accept requests now; a later retry may succeed. */
export class ResultsUnavailable extends Error {
  override name = 'ResultsUnavailable'
}

/** Storage for results, which are files such as reports, uploads and backups. Each key is written only once. */
export interface ResultStore {
  create: (key: string) => Promise<ResultWriter>
  /**
   * Opens a result for reading; rejects if the result does not exist. The signal only aborts the opening; afterwards, the
   * caller must read the stream to its end or destroy it.
   */
  open: (key: string, range?: ByteRange, signal?: AbortSignal) => Promise<Readable>
  /** Returns the keys of all finished results. */
  keys: () => Promise<string[]>
  /** Removes a result; has no effect if it does not exist. */
  remove: (key: string) => Promise<void>
  /** Removes whatever a writer for this key left behind when it ended without `finish` or `discard`. */
  abandon: (key: string) => Promise<void>
  /**
   * Removes unfinished results that were last written (on S3: begun) before this instant, in epoch ms; by default, all.
   * Returns the number removed.
   */
  sweepTemporary: (before?: number) => Promise<number>
  /** Rejects if results cannot be stored: the folder is not writable, or the bucket does not respond. */
  probe: () => Promise<void>
  /** Returns the free space and the size of the file system; null for a store without a limit. */
  space: () => Promise<{ freeBytes: number; totalBytes: number } | null>
}

/** Returns true for the error with which `open` rejects if the result does not exist. */
export function isMissing(error: unknown): boolean {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown }
  return code === 'ENOENT' || name === 'NoSuchKey'
}

const keyForm = /^[A-Za-z0-9_-]+(\.[a-z]+){0,2}$/

/** Returns true if a name can be a key. Names of unfinished files and of other programs' files cannot. */
export const isKey = (name: string): boolean => keyForm.test(name)

/** Throws a TypeError for a key that could refer to something other than a result. */
export function checkKey(key: string): void {
  if (!isKey(key))
    throw new TypeError('A result key consists of letters, digits, _ and -, and may have one or two extensions')
}
