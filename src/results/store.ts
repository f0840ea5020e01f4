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
  write: (chunk: Buffer | string) => Promise<void>
  /** Makes the result durable and gives it its final name. */
  finish: () => Promise<FinishedResult>
  /** Gives up an unfinished result and leaves nothing of it; without effect after `finish`. */
  discard: () => Promise<void>
}

/** Where report files live, each under a key that is written once. */
export interface ResultStore {
  create: (key: string) => Promise<ResultWriter>
  /** Rejects when there is no such result; the stream must be read or destroyed. */
  open: (key: string, range?: ByteRange) => Promise<Readable>
  /** Removes a result; without effect when there is none. */
  remove: (key: string) => Promise<void>
}
