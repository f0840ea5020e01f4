import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { sealer } from '../../src/storage/encryption.ts'

const key = Buffer.alloc(32, 7)
const { seal, open, digest } = sealer(key, randomBytes)

describe('sealed text', () => {
  it('can be decrypted at the location for which it was encrypted', () => {
    for (const text of ['hunter2', '', 'ä🖋\0', 'x'.repeat(10_000)]) assert.equal(open(seal(text, 'a:1'), 'a:1'), text)
  })

  it('does not contain the plaintext, and differs each time', () => {
    const [first, second] = [seal('hunter2', 'a:1'), seal('hunter2', 'a:1')]
    assert.notEqual(first, second)
    assert.match(first, /^v1\.[\w-]+$/)
    assert.equal(Buffer.from(first.slice(5), 'base64url').includes('hunter2'), false)
  })

  it('is rejected at a different location, with a different key, or if altered or truncated', () => {
    const sealed = seal('hunter2', 'a:1')
    assert.throws(() => open(sealed, 'a:2'))
    assert.throws(() => sealer(Buffer.alloc(32, 8), randomBytes).open(sealed, 'a:1'))
    const bytes = Buffer.from(sealed.slice('v1.'.length), 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const altered = Buffer.from(bytes)
      altered[at] = (altered[at] as number) ^ 1
      for (const start of ['v1.', 'v2.1.']) {
        assert.throws(() => open(`${start}${altered.toString('base64url')}`, 'a:1'), Error, `byte ${at}`)
        assert.throws(() => open(`${start}${bytes.subarray(0, at).toString('base64url')}`, 'a:1'), Error, `${at} bytes`)
      }
    }
  })

  it('has the format v1 with the first data key, and can also be decrypted with a v2 prefix', () => {
    const sealed = seal('hunter2', 'a:1')
    assert.match(sealed, /^v1\.[\w-]+$/)
    assert.equal(open(sealed.replace('v1.', 'v2.1.'), 'a:1'), 'hunter2')
  })

  it('is rejected if its data key is not loaded, with the key’s id in the error', () => {
    const sealed = seal('hunter2', 'a:1').replace('v1.', 'v2.7.')
    assert.throws(() => open(sealed, 'a:1'), { name: 'UnknownDataKey', message: /^a:1 cannot be .* data key 7$/ })
  })
})

describe('digest', () => {
  it('is equal only for the same secret at the same location with the same key', () => {
    assert.equal(digest('hunter2', 'a:1'), digest('hunter2', 'a:1'))
    const others = [
      digest('hunter3', 'a:1'),
      digest('hunter2', 'a:2'),
      sealer(Buffer.alloc(32, 8), randomBytes).digest('hunter2', 'a:1'),
    ]
    for (const other of others) assert.notEqual(other, digest('hunter2', 'a:1'))
  })
})
