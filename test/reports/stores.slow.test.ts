// Runs in its own process: sets environment variables.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { openResults } from '../../src/files/open.ts'
import type { ByteRange, ResultStore } from '../../src/files/store.ts'
import { s3Missing, s3Server } from '../support/s3.ts'

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('base64')
const mebibyte = 1_024 * 1_024

/** Tests the behavior that all stores have in common. */
function suite(place: () => Promise<{ url: string; stop: () => void }>): void {
  let results: ResultStore
  let stop: () => void

  before(async () => {
    const { url, stop: end } = await place()
    stop = end
    results = await openResults(url)
  })
  after(() => stop())

  const read = async (key: string, range?: ByteRange) => Buffer.concat(await (await results.open(key, range)).toArray())
  const write = async (key: string, chunks: (string | Buffer)[]) => {
    const writer = await results.create(key)
    for (const chunk of chunks) await writer.write(chunk)
    return writer.finish()
  }

  // Empty, two sizes below an upload part, exactly one part, one byte more, and several parts plus a remainder.
  for (const sizeBytes of [0, 1, 300_000, 8 * mebibyte, 8 * mebibyte + 1, 20 * mebibyte + 12_345]) {
    it(`stores ${sizeBytes.toLocaleString('en')} bytes completely, with their SHA-256`, async () => {
      const bytes = randomBytes(sizeBytes)
      const chunks = []
      for (let at = 0; at < sizeBytes; at += 70_001) chunks.push(bytes.subarray(at, at + 70_001))
      const key = `size-${sizeBytes}`
      assert.deepEqual(await write(key, chunks), { sizeBytes, sha256: sha256(bytes) })
      assert.ok((await read(key)).equals(bytes))
      if (sizeBytes < 1_000) return
      const range = { start: sizeBytes - 1_000, end: sizeBytes - 2 }
      assert.ok((await read(key, range)).equals(bytes.subarray(-1_000, -1)))
    })
  }

  it('stores text as UTF-8, even if a block ends in the middle of a character', async () => {
    const text = '€𝄞é'.repeat(1_300_000)
    const { sizeBytes } = await write('text', [text, 'end'])
    assert.equal(sizeBytes, Buffer.byteLength(text) + 3)
    assert.equal((await read('text')).toString(), `${text}end`)
  })

  it('lists the keys of finished results', async () => {
    const before = await results.keys()
    const unfinished = await results.create('listed-not')
    await unfinished.write(Buffer.alloc(9 * mebibyte))
    await write('listed', ['text'])
    assert.deepEqual((await results.keys()).sort(), [...before, 'listed'].sort())
    await unfinished.discard()
    await results.remove('listed')
    assert.deepEqual((await results.keys()).sort(), before.sort())
  })

  it('returns the number of bytes written so far', async () => {
    const writer = await results.create('size')
    await writer.write('é')
    await writer.write(Buffer.alloc(9 * mebibyte))
    assert.equal(writer.sizeBytes(), 9 * mebibyte + 2)
    await writer.discard()
  })

  it('makes a result readable only once it is finished, and never if it is discarded', async () => {
    for (const key of ['unfinished', 'unfinished-large']) {
      const writer = await results.create(key)
      await writer.write(Buffer.alloc(key.endsWith('large') ? 17 * mebibyte : 10))
      await assert.rejects(results.open(key))
      await writer.discard()
      await writer.discard()
      await assert.rejects(results.open(key))
    }
    assert.equal(await results.sweepTemporary(), 0)
  })

  it('removes everything written under an abandoned key, but nothing written under other keys', async () => {
    const left = await results.create('left-1')
    await left.write(Buffer.alloc(17 * mebibyte))
    const other = await results.create('left-10')
    await other.write(Buffer.alloc(17 * mebibyte))
    await results.abandon('left-1')
    await results.abandon('left-1')
    await assert.rejects(left.finish())
    assert.equal((await other.finish()).sizeBytes, 17 * mebibyte)
    await left.discard().catch(() => {})
    assert.equal(await results.sweepTemporary(), 0)
  })

  it('sweeps unfinished results only if they were written before the given time', async () => {
    const writer = await results.create('crashed')
    await writer.write(Buffer.alloc(17 * mebibyte))
    assert.equal(await results.sweepTemporary(Date.now() - 3_600_000), 0)
    assert.equal(await results.sweepTemporary(Date.now() + 3_600_000), 1)
    await assert.rejects(results.open('crashed'))
    await writer.discard().catch(() => {})
  })

  it('removes a result, and ignores a missing result', async () => {
    await write('gone', ['x'])
    await results.remove('gone')
    await results.remove('gone')
    await assert.rejects(results.open('gone'))
  })

  it('rejects keys that are not plain names (T-API-08)', async () => {
    for (const key of ['../../secret', '/etc/passwd', '.hidden', 'a/b', 'a\0', '', 'a..csv']) {
      await assert.rejects(results.open(key), TypeError, key)
      await assert.rejects(results.create(key), TypeError, key)
      await assert.rejects(results.remove(key), TypeError, key)
      await assert.rejects(results.abandon(key), TypeError, key)
    }
  })
}

describe('a result store in a folder', () => {
  suite(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-results-'))
    return { url: `file:${join(folder, 'results')}`, stop: () => rmSync(folder, { recursive: true, force: true }) }
  })
})

describe('a result store in S3', { skip: s3Missing }, () => {
  suite(s3Server)
})
