import type { Readable } from 'node:stream'

/** A part of a result: the first and the last byte, both counted from 0 and included. */
export interface ByteRange {
  start: number
  end: number
}

/** What a finished result is: its length, and its SHA-256 as base64, the form that `Repr-Digest` and the ETag carry. */
export interface FinishedResult {
  sizeBytes: number
  sha256: string
}

/** A result being written; nobody can open it before `finish`. */
export interface ResultWriter {
  /** Resolves when the next chunk is welcome; rejects when this one, or an earlier one, could not be stored. */
  write: (chunk: Uint8Array | string) => Promise<void>
  /** Makes the result durable, makes sure that all of it is there, and gives it its final name. */
  finish: () => Promise<FinishedResult>
  /** Gives up an unfinished result and leaves nothing of it; without effect after `finish`. */
  discard: () => Promise<void>
  /** How much was written so far. */
  sizeBytes: () => number
}

/** Results that a process reads for clients at once: a store must be able to open so many. */
export const maxDownloadsInAll = 256

/** The store does not answer, or says that it cannot take requests now: trying again later may do. */
export class ResultsUnavailable extends Error {
  override name = 'ResultsUnavailable'
}

/** Where report files live, each under a key that is written once. */
export interface ResultStore {
  create: (key: string) => Promise<ResultWriter>
  /**
   * Rejects when there is no such result; the stream must be read or destroyed. The signal ends the opening; what was
   * opened by then is for the caller to destroy.
   */
  open: (key: string, range?: ByteRange, signal?: AbortSignal) => Promise<Readable>
  /** Removes a result; without effect when there is none. */
  remove: (key: string) => Promise<void>
  /** Removes what a writer of this key has left that ended without `finish` or `discard`. */
  abandon: (key: string) => Promise<void>
  /** Removes unfinished results last written before this instant (epoch ms), without it all; returns how many. */
  sweepTemporary: (before?: number) => Promise<number>
}

const keyForm = /^[A-Za-z0-9_-]+(\.[a-z]+)?$/

/** Throws when a key could name anything but a result. */
export function checkKey(key: string): void {
  if (!keyForm.test(key)) throw new TypeError('A result key holds letters, digits, _ and - and one extension')
}
