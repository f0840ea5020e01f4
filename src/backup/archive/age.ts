import { createCipheriv, createDecipheriv, createHmac, hkdfSync, type ScryptOptions, scrypt } from 'node:crypto'
import { BackupBroken } from '../errors.ts'

type Bytes = AsyncIterable<Uint8Array>

/** The first line of each file in the age format, version 1 (age-encryption.org/v1). */
export const ageIntro = 'age-encryption.org/v1'
const headerForm = /^age-encryption\.org\/v1\n-> scrypt ([\w+/]{22}) ([1-9]\d?)\n([\w+/]{43})\n--- ([\w+/]{43})\n/
const maxHeaderBytes = 65_536
const chunkBytes = 65_536
const tagBytes = 16
const nonceBytes = 16
/** The base-2 logarithm of scrypt's cost parameter N: 2^17 takes 128 MiB of memory and less than a second. */
const defaultWorkFactor = 17
const maxWorkFactor = 20

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64').replace(/=+$/, '')
const derive = (key: Uint8Array, salt: Uint8Array, info: string) => Buffer.from(hkdfSync('sha256', key, salt, info, 32))
const headerTag = (fileKey: Uint8Array, header: string) =>
  createHmac('sha256', derive(fileKey, Buffer.alloc(0), 'header'))
    .update(header)
    .digest()

export interface Encryption {
  passphrase: string
  random: (size: number) => Uint8Array
  /** The base-2 logarithm of scrypt's cost parameter N; default 17. */
  workFactor?: number | undefined
}

/** Encrypts bytes with a passphrase in the age format, which `age --decrypt` opens. */
export async function* encrypted(bytes: Bytes, options: Encryption): Bytes {
  const { passphrase, random, workFactor = defaultWorkFactor } = options
  const [fileKey, salt, nonce] = [random(16), random(16), random(nonceBytes)]
  const wrapped = seal(await wrappingKey(passphrase, salt, workFactor), Buffer.alloc(12), fileKey)
  const header = `${ageIntro}\n-> scrypt ${base64(salt)} ${workFactor}\n${base64(wrapped)}\n---`
  yield Buffer.concat([Buffer.from(`${header} ${base64(headerTag(fileKey, header))}\n`), nonce])
  const key = derive(fileKey, nonce, 'payload')
  for await (const { chunk, count, isLast } of chunksOf(bytes, chunkBytes))
    yield seal(key, nonceOf(count, isLast), chunk)
}

/** Decrypts a file in the age format. Throws `BackupBroken` if the passphrase is wrong or any byte was altered. */
export async function* decrypted(bytes: Bytes, passphrase: string): Bytes {
  const { header, nonce, payload } = await readHeader(bytes)
  const key = derive(await fileKeyOf(header, passphrase), nonce, 'payload')
  for await (const { chunk, count, isLast } of chunksOf(payload, chunkBytes + tagBytes)) {
    const plain = opened(key, nonceOf(count, isLast), chunk)
    // A file must not contain an empty chunk, unless the whole file is empty.
    if (!plain || (plain.length === 0 && count > 0))
      throw new BackupBroken('a block cannot be decrypted: the file is incomplete or was altered')
    yield plain
  }
}

interface Header {
  text: string
  salt: string
  factor: number
  wrapped: string
  tag: string
}

async function fileKeyOf({ text, salt, factor, wrapped, tag }: Header, passphrase: string): Promise<Buffer> {
  if (factor > maxWorkFactor) {
    throw new BackupBroken(`its passphrase needs 2^${factor} rounds of scrypt; at most 2^${maxWorkFactor} are allowed`)
  }
  const unwrapping = await wrappingKey(passphrase, Buffer.from(salt, 'base64'), factor)
  const fileKey = opened(unwrapping, Buffer.alloc(12), Buffer.from(wrapped, 'base64'))
  if (!fileKey) throw new BackupBroken('the passphrase is wrong, or the first bytes were altered')
  // A different header text may encode the same bytes, so the encoded tags are compared as text.
  const expected = headerTag(fileKey, text.slice(0, text.lastIndexOf('---') + 3))
  if (base64(expected) !== tag) throw new BackupBroken('the header of its encryption was altered')
  return fileKey
}

/** Splits a file into its header, the nonce that follows, and the encrypted chunks. */
async function readHeader(bytes: Bytes): Promise<{ header: Header; nonce: Buffer; payload: Bytes }> {
  const parts = bytes[Symbol.asyncIterator]()
  let start = Buffer.alloc(0)
  for (let isEnd: boolean | undefined = false; !isEnd && start.length < maxHeaderBytes; ) {
    const { value, done } = await parts.next()
    if (value) start = Buffer.concat([start, value])
    isEnd = done
    const [text, salt = '', factor, wrapped = '', tag = ''] = headerForm.exec(start.toString('latin1')) ?? []
    const end = (text?.length ?? 0) + nonceBytes
    if (text === undefined || start.length < end) continue
    const header = { text, salt, factor: Number(factor), wrapped, tag }
    return { header, nonce: start.subarray(end - nonceBytes, end), payload: joined(start.subarray(end), parts) }
  }
  throw new BackupBroken('it is not encrypted with a passphrase, or its first bytes were altered')
}

async function* joined(start: Uint8Array, rest: AsyncIterator<Uint8Array>): Bytes {
  yield start
  yield* { [Symbol.asyncIterator]: () => rest }
}

interface Chunk {
  /** The buffer is reused when the next chunk is requested. */
  chunk: Uint8Array
  count: number
  isLast: boolean
}

/** Splits bytes into chunks of equal size; only the last one may be shorter. */
async function* chunksOf(bytes: Bytes, size: number): AsyncIterable<Chunk> {
  const chunk = Buffer.alloc(size)
  let filled = 0
  let count = 0
  for await (const part of bytes) {
    for (let at = 0; at < part.length; ) {
      if (filled === size) {
        yield { chunk, count, isLast: false }
        filled = 0
        count += 1
      }
      const taken = Math.min(size - filled, part.length - at)
      chunk.set(part.subarray(at, at + taken), filled)
      filled += taken
      at += taken
    }
  }
  yield { chunk: chunk.subarray(0, filled), count, isLast: true }
}

async function wrappingKey(passphrase: string, salt: Uint8Array, factor: number): Promise<Buffer> {
  const options: ScryptOptions = { N: 2 ** factor, r: 8, p: 1, maxmem: 2 ** factor * 1_024 + 1_048_576 }
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const salted = Buffer.concat([Buffer.from(`${ageIntro}/scrypt`), salt])
  scrypt(passphrase, salted, 32, options, (error, key) => (error ? reject(error) : resolve(key)))
  return promise
}

/** Returns the nonce of a chunk: the chunk's number in 11 bytes, then 1 for the last chunk or 0 for any other. */
function nonceOf(count: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12)
  nonce.writeUIntBE(count, 5, 6)
  nonce[11] = isLast ? 1 : 0
  return nonce
}

function seal(key: Uint8Array, nonce: Uint8Array, plain: Uint8Array): Buffer {
  const cipher = createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: tagBytes })
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** Returns the decrypted bytes; undefined if they were altered or the key is wrong. */
function opened(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array): Buffer | undefined {
  if (sealed.length < tagBytes) return undefined
  const cipher = createDecipheriv('chacha20-poly1305', key, nonce, { authTagLength: tagBytes })
  cipher.setAuthTag(sealed.subarray(-tagBytes))
  const plain = cipher.update(sealed.subarray(0, -tagBytes))
  try {
    cipher.final()
    return plain
  } catch {
    return undefined
  }
}
