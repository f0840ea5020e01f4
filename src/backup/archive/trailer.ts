import { createHash } from 'node:crypto'
import { BackupBroken } from '../errors.ts'

type Bytes = AsyncIterable<Uint8Array>

/**
 * The header of a zstd skippable frame with 32 bytes of content (RFC 8878 §3.1.2), which every decoder ignores. The
 * content is the SHA-256 of all preceding bytes. It reveals any altered or missing byte, even one that does not change
 * the decompressed content.
 */
const frameStart = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 32, 0, 0, 0])
const trailerBytes = frameStart.length + 32

/** Yields the bytes, followed by a frame with their digest. */
export async function* withTrailer(bytes: Bytes): Bytes {
  const hash = createHash('sha256')
  for await (const chunk of bytes) {
    hash.update(chunk)
    yield chunk
  }
  yield Buffer.concat([frameStart, hash.digest()])
}

/**
 * Yields the bytes before the digest. At their end, throws `BackupBroken` if the digest is missing or does not match
 * them.
 */
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
