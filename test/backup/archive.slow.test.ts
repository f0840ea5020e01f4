import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { before, describe, it } from 'node:test'
import { Decrypter, Encrypter } from 'age-encryption'
import { archiveFormat, headName, manifestName } from '../../src/backup/archive/manifest.ts'
import { readArchive } from '../../src/backup/archive/read.ts'
import { archiveWriter } from '../../src/backup/archive/write.ts'
import { quickWorkFactor } from '../support/app.ts'
import { passphrase } from './support.ts'

const head = {
  ...{ format: archiveFormat, plinth: '1.2.3', engine: 'sqlite', takenAt: '2026-03-01T12:00:00.000Z' },
  ...{ migrations: ['0001-resources'], resources: ['books'], postgres: null, masterKey: null },
}

type Files = readonly [name: string, bytes: Buffer][]

/** Writes an archive of these files; `changes` overrides members of its manifest. */
async function archiveOf(
  files: Files,
  secret: string | null,
  changes: object = {},
  first: object = head,
): Promise<Buffer> {
  const parts: Buffer[] = []
  const archive = archiveWriter({
    write: async (chunk) => void parts.push(Buffer.from(chunk)),
    ...{ passphrase: secret, workFactor: quickWorkFactor, random: (size) => randomBytes(size), mtime: new Date(0) },
    signal: new AbortController().signal,
  })
  const add = (name: string, bytes: Buffer) => archive.add(name, bytes.length, Readable.from([bytes]))
  const entries = [await add(headName, Buffer.from(JSON.stringify(first)))]
  for (const [name, bytes] of files) entries.push(await add(name, bytes))
  const found = { tables: { books: 3 }, entries, missingResults: [], damagedResults: [] }
  await add(manifestName, Buffer.from(JSON.stringify({ ...first, ...found, ...changes })))
  await archive.finish()
  return Buffer.concat(parts)
}

const read = (bytes: Buffer, secret = passphrase) => {
  const chunks = Array.from({ length: Math.ceil(bytes.length / 4_096) }, (_, at) =>
    bytes.subarray(at * 4_096, (at + 1) * 4_096),
  )
  return readArchive(Readable.from(chunks), { passphrase: async () => secret })
}
const isBroken = { name: 'BackupBroken' }

describe('an archive', () => {
  const files: Files = [
    ['database.db', randomBytes(200_000)],
    ['results/tsk_1.csv', Buffer.from('a,b\n')],
    ['keys/master.key', Buffer.from('key')],
  ]
  let plain: Buffer
  before(async () => {
    plain = await archiveOf(files, null)
  })

  it('is read with its manifest if every digest matches', async () => {
    const { tables, entries, isEncrypted } = await read(plain)
    assert.deepEqual([tables, isEncrypted], [{ books: 3 }, false])
    assert.deepEqual(
      entries.map(({ name, sizeBytes }) => [name, sizeBytes]).slice(1),
      files.map(([name, bytes]) => [name, bytes.length]),
    )
  })

  it('is rejected as broken if one bit of any byte is flipped', async () => {
    const small = await archiveOf([['database.db', Buffer.from('x'.repeat(500))]], null)
    for (let at = 0; at < small.length; at++) {
      const altered = Buffer.from(small)
      altered[at] = (altered[at] as number) ^ (1 << (at % 8))
      await assert.rejects(read(altered), isBroken, `byte ${at}`)
    }
  })

  it('is rejected as broken if it is truncated or followed by other bytes', async () => {
    for (const size of [0, 1, 4, 100, 4_096, plain.length - 41, plain.length - 40, plain.length - 1]) {
      await assert.rejects(read(plain.subarray(0, size)), isBroken, `${size} bytes`)
    }
    await assert.rejects(read(Buffer.concat([plain, Buffer.from([0])])), isBroken)
    await assert.rejects(read(Buffer.concat([plain, plain])), isBroken)
  })

  it('is rejected as broken if its manifest does not match its files', async () => {
    const unlike: [changes: object, message: RegExp][] = [
      [{ entries: [] }, /backup\.json is not in the manifest/],
      [{ entries: [{ name: 'database.db', sizeBytes: 1, sha256: '' }] }, /database\.db was altered/],
      [{ entries: [{ name: 'results/other', sizeBytes: 1, sha256: '' }] }, /results\/other is missing/],
      [{ tables: null }, /manifest\.json is not valid/],
    ]
    for (const [changes, message] of unlike) await assert.rejects(archiveOf(files, null, changes).then(read), message)
  })

  it('is rejected as broken if it contains a file that does not belong in a backup, or the same file twice', async () => {
    for (const name of ['../escaped', 'results/../../escaped', '/etc/passwd', 'results/a/b', 'other', headName]) {
      await assert.rejects(archiveOf([[name, Buffer.from('x')]], null).then(read), isBroken, name)
    }
    const twice: Files = [
      ['keys/master.key', Buffer.from('1')],
      ['keys/master.key', Buffer.from('2')],
    ]
    await assert.rejects(archiveOf(twice, null).then(read), /occurs twice/)
  })

  it('is refused if it has the format of a later release', async () => {
    const later = archiveOf([], null, {}, { ...head, format: archiveFormat + 1 })
    await assert.rejects(later.then(read), { name: 'BackupRefused', message: /format 2, which a later release made/ })
  })
})

describe('an encrypted archive', () => {
  const files: Files = [['database.db', randomBytes(200_000)]]
  let sealed: Buffer
  before(async () => {
    sealed = await archiveOf(files, passphrase)
  })

  it('opens with its passphrase, and contains neither the names nor the bytes of its files in plaintext', async () => {
    const { entries, isEncrypted } = await read(sealed)
    assert.deepEqual([entries.length, isEncrypted], [2, true])
    const [[, bytes]] = files as [Files[0]]
    for (const plain of ['database.db', headName, bytes.subarray(0, 32), bytes.subarray(-32)]) {
      assert.equal(sealed.includes(plain), false)
    }
  })

  it('is in the age format: Plinth and another age implementation can decrypt each other’s files', async () => {
    const plain = await archiveOf(files, null)
    const decrypter = new Decrypter()
    decrypter.addPassphrase(passphrase)
    const opened = Buffer.from(await decrypter.decrypt(sealed))
    assert.equal((await read(opened)).entries.length, 2)
    const encrypter = new Encrypter()
    encrypter.setPassphrase(passphrase)
    encrypter.setScryptWorkFactor(10)
    assert.equal((await read(Buffer.from(await encrypter.encrypt(plain)))).isEncrypted, true)
  })

  it('cannot be read with another passphrase', async () => {
    await assert.rejects(read(sealed, 'another passphrase'), { ...isBroken, message: /the passphrase is wrong/ })
  })

  it('is rejected as broken if a bit is flipped in any header byte or a sample of payload bytes, or if it is cut off between blocks', async () => {
    const encrypter = new Encrypter()
    encrypter.setPassphrase(passphrase)
    encrypter.setScryptWorkFactor(4)
    const plain = await archiveOf([['database.db', randomBytes(140_000)]], null)
    const bytes = Buffer.from(await encrypter.encrypt(plain))
    const headerBytes = bytes.indexOf('\n---') + 64
    const positions = [...Array(headerBytes).keys(), ...Array.from({ length: 12 }, (_, n) => headerBytes + n * 11_003)]
    for (const at of [...positions, bytes.length - 1]) {
      const altered = Buffer.from(bytes)
      altered[at] = (altered[at] as number) ^ (1 << (at % 8))
      await assert.rejects(read(altered), isBroken, `byte ${at}`)
    }
    const payload = bytes.indexOf('\n', bytes.indexOf('\n---') + 1) + 17
    for (const blocks of [0, 1, 2]) {
      await assert.rejects(read(bytes.subarray(0, payload + blocks * 65_552)), isBroken, `${blocks} blocks`)
    }
  })

  it('is refused if it is encrypted for a public key, or if its work factor is too high', async () => {
    const text = sealed.toString('latin1')
    const forKey = Buffer.from(
      text.replace(/-> scrypt [^\n]+/, '-> X25519 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'),
      'latin1',
    )
    await assert.rejects(read(forKey), /not encrypted with a passphrase/)
    const costly = Buffer.from(text.replace(/ \d+\n/, ' 30\n'), 'latin1')
    await assert.rejects(read(costly), /2\^30 rounds/)
  })
})
