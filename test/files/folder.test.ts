import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { folderResults } from '../../src/files/folder.ts'
import type { ByteRange, ResultStore } from '../../src/files/store.ts'

describe('the results folder', () => {
  let parent: string
  let folder: string
  let results: ResultStore

  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'plinth-results-'))
    folder = join(parent, 'data', 'results')
    results = folderResults(folder)
  })
  afterEach(() => {
    chmodSync(folder, 0o700)
    rmSync(parent, { recursive: true, force: true })
  })

  const read = async (key: string, range?: ByteRange) =>
    Buffer.concat(await (await results.open(key, range)).toArray()).toString()
  const sha256 = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('base64')

  it('stores the written bytes, and returns their length and SHA-256', async () => {
    const writer = await results.create('tsk_a-1')
    const chunks = ['é'.repeat(50_000), Buffer.alloc(70_000, 7), 'small', Buffer.from('er'), '€'.repeat(100_000), 'end']
    for (const chunk of chunks) await writer.write(chunk)
    const finished = await writer.finish()
    const whole = Buffer.concat(chunks.map((chunk) => Buffer.from(chunk as string)))
    assert.deepEqual(finished, { sizeBytes: whole.length, sha256: sha256(whole) })
    assert.deepEqual(readFileSync(join(folder, 'tsk_a-1')), whole)
    assert.deepEqual(readdirSync(folder), ['tsk_a-1'])
  })

  it('stores an empty result', async () => {
    const writer = await results.create('empty')
    assert.deepEqual(await writer.finish(), { sizeBytes: 0, sha256: sha256('') })
    assert.equal(await read('empty'), '')
  })

  it('makes a result readable only once it is finished', async () => {
    const writer = await results.create('slow')
    await writer.write('x'.repeat(100_000))
    await assert.rejects(results.open('slow'), { code: 'ENOENT' })
    await writer.finish()
    assert.equal((await read('slow')).length, 100_000)
  })

  it('makes results readable only by their owner', async () => {
    const writer = await results.create('private.csv')
    await writer.finish()
    assert.equal(statSync(folder).mode & 0o777, 0o700)
    assert.equal(statSync(join(folder, 'private.csv')).mode & 0o777, 0o600)
  })

  it('reads a byte range with both ends included', async () => {
    const writer = await results.create('range')
    await writer.write('0123456789')
    await writer.finish()
    assert.equal(await read('range', { start: 2, end: 4 }), '234')
    assert.equal(await read('range', { start: 9, end: 9 }), '9')
  })

  it('removes the file of a discarded result, but not if the result was finished before', async () => {
    const discarded = await results.create('given-up')
    await discarded.write('x'.repeat(200_000))
    await discarded.discard()
    await discarded.discard()
    assert.deepEqual(readdirSync(folder), [])
    const finished = await results.create('kept')
    await finished.finish()
    await finished.discard()
    assert.deepEqual(readdirSync(folder), ['kept'])
  })

  it('finish() rejects if the file cannot be renamed; the result can still be discarded', async () => {
    const writer = await results.create('doomed')
    await writer.write('x')
    rmSync(join(folder, '.doomed.part'))
    await assert.rejects(writer.finish(), { code: 'ENOENT' })
    await writer.discard()
    assert.deepEqual(readdirSync(folder), [])
  })

  it('allows only one writer per key', async () => {
    const writer = await results.create('one')
    await assert.rejects(results.create('one'), { code: 'EEXIST' })
    await writer.write('first')
    await writer.finish()
    assert.equal(await read('one'), 'first')
  })

  it('removes a result, and ignores a missing result', async () => {
    await (await results.create('gone')).finish()
    await results.remove('gone')
    await results.remove('gone')
    await assert.rejects(results.open('gone'), { code: 'ENOENT' })
  })

  it('rejects keys that are not plain names', async () => {
    writeFileSync(join(parent, 'secret'), 'secret')
    for (const key of [
      '../../secret',
      '/etc/passwd',
      '.hidden',
      'a/b',
      'a\0',
      '',
      'a..csv',
      'a.b.tar.gz',
      'a.CSV',
      'a\n',
    ]) {
      await assert.rejects(results.open(key), TypeError, key)
      await assert.rejects(results.create(key), TypeError, key)
      await assert.rejects(results.remove(key), TypeError, key)
    }
  })

  it('sweeps only unfinished files; given a time, only those last written before it', async () => {
    await (await results.create('whole')).finish()
    for (const [name, ageSeconds] of [
      ['.old-1.part', 7_200],
      ['.new-1.part', 60],
    ] as const) {
      writeFileSync(join(folder, name), 'half')
      const written = Date.now() / 1_000 - ageSeconds
      utimesSync(join(folder, name), written, written)
    }
    assert.equal(await results.sweepTemporary(Date.now() - 3_600_000), 1)
    assert.deepEqual(readdirSync(folder).sort(), ['.new-1.part', 'whole'])
    assert.equal(await results.sweepTemporary(), 1)
    assert.deepEqual(readdirSync(folder), ['whole'])
  })
})
