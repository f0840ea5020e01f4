import { createHash } from 'node:crypto'
import { BackupBroken } from '../errors.ts'

type Bytes = AsyncIterable<Uint8Array>

/**
 * The start of a skippable frame of 32 bytes (RFC 8878 §3.1.2), which every zstd decoder ignores. It contains the SHA-256 of
 * all bytes before it, so that any altered or missing byte is detected, even one that does not change the content.
 */
const frameStart = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 32, 0, 0, 0])
const trailerBytes = frameStart.length + 32

/** Appends the digest of the bytes. */
export async function* withTrailer(bytes: Bytes): Bytes {
  const hash = createHash('sha256')
  for await (const chunk of bytes) {
    hash.update(chunk)
    yield chunk
  }
  yield Buffer.concat([frameStart, hash.digest()])
}

/** Yields the bytes before the digest. Throws `BackupBroken` at the end if they have another digest, or if it is missing. */
export async function* checkedByTrailer(bytes: Bytes): Bytes {
  const hash = createHash('sha256')
  let held = Buffer.alloc(0)
  for await (const chunk of bytes) {
    held = Buffer.concat([held, chunk])
    const free = held.subarray(0, Math.max(0, held.length - trailerBytes))
    if (free.length === 0) continue
    hash.update(free)
    yield free
    held = held.subarray(free.length)
  }
  if (!held.subarray(0, frameStart.length).equals(frameStart))
    throw new BackupBroken('it is incomplete: its end is missing')
  if (!held.subarray(frameStart.length).equals(hash.digest()))
    throw new BackupBroken('it was altered: its digest does not match')
}
