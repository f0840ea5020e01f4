import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { pooledRandom } from '../../src/storage/ids.ts'

describe('pooledRandom', () => {
  it('returns the bytes of the source in order, each at most once', () => {
    const given: Buffer[] = []
    const random = pooledRandom((size) => {
      const bytes = randomBytes(size)
      given.push(Buffer.from(bytes))
      return bytes
    })
    const taken = Array.from({ length: 10_000 }, () => random(16).toString('hex'))
    assert.equal(new Set(taken).size, 10_000)
    assert.ok(Buffer.concat(given).toString('hex').startsWith(taken.join('')))
    assert.equal(given.length, Math.ceil((10_000 * 16) / 4_096))
  })

  it('never reads beyond the end of the pool', () => {
    const random = pooledRandom(randomBytes)
    for (let n = 0; n < 5_000; n++) assert.equal(random((n % 16) + 1).length, (n % 16) + 1)
  })

  it('never changes bytes after returning them', () => {
    const random = pooledRandom(randomBytes)
    const first = random(16)
    const before = first.toString('hex')
    for (let n = 0; n < 1_000; n++) random(16).fill(0)
    assert.equal(first.toString('hex'), before)
  })

  it('bypasses the pool for 24 and 32 bytes, the lengths of secrets', () => {
    const asked: number[] = []
    const random = pooledRandom((size) => {
      asked.push(size)
      return randomBytes(size)
    })
    assert.equal(random(32).length, 32)
    assert.equal(random(24).length, 24)
    assert.deepEqual(asked, [32, 24])
  })
})
