import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import { createZstdDecompress } from 'node:zlib'
import { createTarDecoder } from 'modern-tar'
import { BackupBroken, BackupRefused } from '../errors.ts'
import { ageIntro, decrypted } from './age.ts'
import {
  checkEntries,
  type Entry,
  type Head,
  headName,
  type Manifest,
  manifestName,
  readHead,
  readManifest,
} from './manifest.ts'
import { checkedByTrailer } from './trailer.ts'

type Bytes = AsyncIterable<Uint8Array>

export interface ReadOptions {
  /** Called if the archive is encrypted. */
  passphrase: () => Promise<string>
  /** Called with the description of the backup before anything else is read. To stop reading, throw an error. */
  onHead?: (head: Head) => void | Promise<void>
  /**
   * Called with each file in order; must read the file's content to its end. By default, only the digests are checked.
   */
  onFile?: (name: string, content: Bytes) => Promise<void>
}

const zstdIntro = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])
/** The names of files in an archive, other than its head and its manifest. */
const fileForm = /^(database\.(db|dump)|results\/[A-Za-z0-9_-]+(\.[a-z]+){0,2}|keys\/[a-z.]+)$/
const maxJsonBytes = 64 * 1_048_576

/**
 * Reads an archive to its end and returns its manifest. Throws `BackupBroken` if the bytes are not an archive, are
 * incomplete, or were altered anywhere. Because an alteration may be found only at the end, do not use anything passed
 * to `onFile` until this resolves.
 */
export async function readArchive(bytes: Bytes, options: ReadOptions): Promise<Manifest & { isEncrypted: boolean }> {
  const { start, all } = await startOf(bytes, ageIntro.length)
  const isEncrypted = start.toString('latin1') === ageIntro
  const compressed = isEncrypted ? decrypted(all, await options.passphrase()) : all
  const inner = isEncrypted ? await startOf(compressed, zstdIntro.length) : { start, all }
  if (!inner.start.subarray(0, zstdIntro.length).equals(zstdIntro)) {
    throw new BackupBroken('it is not a backup of Plinth, or its first bytes were altered')
  }
  const decompress = createZstdDecompress()
  const fed = pipeline(checkedByTrailer(inner.all), decompress)
  fed.catch(() => {})
  const entries = ReadableStream.from<Uint8Array>(decompress).pipeThrough(
    createTarDecoder({ strict: true }) as TarStage,
  )
  const reading = contentReader(options)
  try {
    for await (const { header, body } of entries) await reading.read(header.name, body)
    await fed
  } catch (error) {
    decompress.destroy()
    throw await causeOf(error, fed)
  }
  return { ...reading.manifest(), isEncrypted }
}

type TarStage = ReadableWritablePair<{ header: { name: string }; body: Bytes }, Uint8Array>

/** Returns at least the first `size` bytes (fewer if there are not as many), and an iterable over all bytes. */
async function startOf(bytes: Bytes, size: number): Promise<{ start: Buffer; all: Bytes }> {
  const parts = bytes[Symbol.asyncIterator]()
  let start = Buffer.alloc(0)
  for (let isEnd: boolean | undefined = false; !isEnd && start.length < size; ) {
    const { value, done } = await parts.next()
    if (value) start = Buffer.concat([start, value])
    isEnd = done
  }
  async function* all(): Bytes {
    yield start
    yield* { [Symbol.asyncIterator]: () => parts }
  }
  return { start: start.subarray(0, size), all: all() }
}

/** Returns a reader that checks the order, names and digests of the entries, and passes the files to `onFile`. */
function contentReader({ onHead, onFile = drain }: ReadOptions) {
  const found: Entry[] = []
  let manifest: Manifest | undefined
  const handle = async (name: string, content: Bytes) => {
    if (manifest) throw new BackupBroken(`${name} follows the manifest`)
    if (name === manifestName) {
      manifest = readManifest(await textOf(content))
      return checkEntries(manifest, found)
    }
    if ((name === headName) !== (found.length === 0)) throw new BackupBroken(`${name} is not where it belongs`)
    if (name !== headName && !fileForm.test(name)) throw new BackupBroken(`${name} does not belong in a backup`)
    if (found.some((entry) => entry.name === name)) throw new BackupBroken(`${name} occurs twice`)
    const { counted, entry } = measured(name, content)
    if (name === headName) {
      const head = readHead(await textOf(counted))
      await onHead?.(head)
    } else await onFile(name, counted)
    found.push(entry())
  }
  return {
    read: handle,
    manifest: () => {
      if (!manifest) throw new BackupBroken(`it is incomplete: ${manifestName} is missing`)
      return manifest
    },
  }
}

async function drain(_name: string, content: Bytes): Promise<void> {
  for await (const _ of content);
}

/** Counts and hashes an entry's bytes while they are read. */
function measured(name: string, content: Bytes) {
  const hash = createHash('sha256')
  let sizeBytes = 0
  async function* counted(): Bytes {
    for await (const chunk of content) {
      hash.update(chunk)
      sizeBytes += chunk.length
      yield chunk
    }
  }
  return { counted: counted(), entry: (): Entry => ({ name, sizeBytes, sha256: hash.digest('hex') }) }
}

async function textOf(content: Bytes): Promise<string> {
  const parts: Uint8Array[] = []
  let sizeBytes = 0
  for await (const chunk of content) {
    sizeBytes += chunk.length
    if (sizeBytes > maxJsonBytes) throw new BackupBroken('its manifest is too long')
    parts.push(chunk)
  }
  return Buffer.concat(parts).toString()
}

/**
 * Returns the error to report. If an earlier stage failed, this is that stage's error, because it caused the later
 * errors.
 */
async function causeOf(error: unknown, fed: Promise<void>): Promise<unknown> {
  const earlier = await fed.then(
    () => undefined,
    (cause) => ((cause as { code?: unknown }).code === 'ERR_STREAM_PREMATURE_CLOSE' ? undefined : cause),
  )
  const first = earlier ?? error
  return isReported(first) ? first : new BackupBroken(`it was altered: ${Object(first).message}`, { cause: first })
}

/**
 * Returns true for errors that are reported unchanged: errors unrelated to the archive's content, such as a full disk,
 * and errors that already describe the archive.
 */
function isReported(error: unknown): boolean {
  if (error instanceof BackupBroken || error instanceof BackupRefused) return true
  const { code, name } = Object(error) as { code?: unknown; name?: unknown }
  return name === 'AbortError' || (typeof code === 'string' && /^E[A-Z]+$/.test(code))
}
