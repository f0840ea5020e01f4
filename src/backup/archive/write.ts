import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'
import { createTarPacker } from 'modern-tar'
import { type Encryption, encrypted } from './age.ts'
import type { Entry } from './manifest.ts'
import { withTrailer } from './trailer.ts'

export interface ArchiveOptions {
  /** Receives the bytes of the archive in order. */
  write: (chunk: Uint8Array) => Promise<void>
  /** Encrypts the archive; null leaves it unencrypted. */
  passphrase: string | null
  workFactor?: Encryption['workFactor']
  random: (size: number) => Uint8Array
  signal: AbortSignal
  /** The modification time of the entries. */
  mtime: Date
}

export interface ArchiveWriter {
  /**
   * Adds a file of exactly this size. Rejects if the content has a different size, or if the archive cannot be written.
   */
  add: (name: string, sizeBytes: number, content: AsyncIterable<Uint8Array>) => Promise<Entry>
  /** Completes the archive; resolves when its last byte has been written. */
  finish: () => Promise<void>
  /** Discards an incomplete archive; resolves when all writing has stopped. */
  abort: (reason: unknown) => Promise<void>
}

/**
 * Writes an archive: a tar stream, compressed with zstd and followed by its digest. If there is a passphrase, encrypts
 * the result with it.
 */
export function archiveWriter(options: ArchiveOptions): ArchiveWriter {
  const { write, passphrase, signal, mtime } = options
  const { readable, controller } = createTarPacker()
  const compress = createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } })
  const written = pipeline(
    Readable.fromWeb(readable as never),
    compress,
    (bytes) => (passphrase === null ? withTrailer(bytes) : encrypted(withTrailer(bytes), { ...options, passphrase })),
    async (chunks: AsyncIterable<Uint8Array>) => {
      for await (const chunk of chunks) await write(chunk)
    },
    { signal },
  )
  // Prevents an unhandled rejection; `add` and `finish` report the failure.
  written.catch(() => {})
  return {
    add: async (name, sizeBytes, content) => {
      const hash = createHash('sha256')
      try {
        const body = controller.add({ name, size: sizeBytes, mode: 0o600, mtime }).getWriter()
        for await (const chunk of content) {
          hash.update(chunk)
          await body.write(chunk)
        }
        await body.close()
      } catch (error) {
        controller.error(error)
        // If writing failed first, this throws the original error.
        await written
        throw error
      }
      return { name, sizeBytes, sha256: hash.digest('hex') }
    },
    finish: () => {
      controller.finalize()
      return written
    },
    abort: (reason) => {
      controller.error(reason)
      return written.catch(() => {})
    },
  }
}
