// Runs in its own process: its signatures are valid for five minutes after the import.
import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes, verify } from 'node:crypto'
import { describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { newSecret, signature } from '../../src/webhooks/dispatch/sign.ts'

const body = Buffer.from('{"taskId":"t-1","status":"completed","resultUrl":"https://example.com/é"}')
const timestampSeconds = Math.floor(Date.now() / 1000)
const message = { id: 'msg_1', timestampSeconds, body }

function reads(secret: string, sent: { id: string; timestampSeconds: number; body: Buffer }, value: string): boolean {
  try {
    new Webhook(secret).verify(
      sent.body,
      { 'webhook-id': sent.id, 'webhook-timestamp': String(sent.timestampSeconds), 'webhook-signature': value },
      { jsonParse: false },
    )
    return true
  } catch {
    return false
  }
}

function flipped(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[bit >> 3] = copy[bit >> 3]! ^ (1 << (bit & 7))
  return copy
}

describe('webhook secrets', () => {
  it('consist of whsec_ and 32 random bytes in base64', () => {
    const drawn: number[] = []
    const secret = newSecret((size) => {
      drawn.push(size)
      return Buffer.alloc(size, 7)
    })
    assert.deepEqual(drawn, [32])
    assert.equal(secret, `whsec_${Buffer.alloc(32, 7).toString('base64')}`)
  })

  it('differ from each other', () => {
    assert.equal(new Set(Array.from({ length: 100 }, () => newSecret(randomBytes))).size, 100)
  })

  for (const bad of ['', 'whsec_', 'whsec_c2hvcnQ=', randomBytes(32).toString('base64'), 'WHSEC_AAAA']) {
    it(`cannot sign if malformed: ${JSON.stringify(bad.slice(0, 14))}`, () => {
      assert.throws(() => signature({ secrets: [bad] }, message), TypeError)
    })
  }
})

describe('webhook-signature, v1', () => {
  const secret = newSecret(randomBytes)
  const value = signature({ secrets: [secret] }, message)

  it('T-WH-01 is accepted by the published standardwebhooks library', () => {
    assert.match(value, /^v1,[A-Za-z0-9+/]{43}=$/)
    assert.ok(reads(secret, message, value))
  })

  it('equals the signature that the standardwebhooks library creates', () => {
    assert.equal(value, new Webhook(secret).sign(message.id, new Date(timestampSeconds * 1000), body))
  })

  it("matches the specification's published example", () => {
    const sample = {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestampSeconds: 1614265330,
      body: Buffer.from('{"test": 2432232314}'),
    }
    const signed = signature({ secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] }, sample)
    assert.equal(signed, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
  })

  it('T-WH-01 is invalid after any of 200 bit flips in the body', () => {
    const bits = Array.from({ length: 200 }, (_, n) => (n * 3) % (body.length * 8))
    assert.equal(new Set(bits).size, 200)
    assert.equal(bits.filter((bit) => reads(secret, { ...message, body: flipped(body, bit) }, value)).length, 0)
  })

  it('T-WH-01 is invalid after any bit flip in the signature', () => {
    const mac = Buffer.from(value.slice(3), 'base64')
    const forged = Array.from({ length: 256 }, (_, bit) => `v1,${flipped(mac, bit).toString('base64')}`)
    assert.equal(forged.filter((attempt) => reads(secret, message, attempt)).length, 0)
  })

  it('T-WH-01 is invalid for a different id, time or secret', () => {
    assert.equal(reads(secret, { ...message, id: 'msg_2' }, value), false)
    assert.equal(reads(secret, { ...message, timestampSeconds: timestampSeconds + 1 }, value), false)
    assert.equal(reads(newSecret(randomBytes), message, value), false)
  })

  it('T-WH-02 can be verified with the old and with the new secret during a rotation', () => {
    const next = newSecret(randomBytes)
    const both = signature({ secrets: [next, secret] }, message)
    assert.equal(both.split(' ').length, 2)
    assert.ok(reads(secret, message, both))
    assert.ok(reads(next, message, both))
  })

  it('T-WH-03 covers the exact bytes, whether or not they are valid UTF-8', () => {
    const signed = (bytes: Buffer) => signature({ secrets: [secret] }, { ...message, body: bytes })
    assert.notEqual(signed(Buffer.from([0xff])), signed(Buffer.from([0xfe])))
    assert.equal(signed(Buffer.from([0xff, 0])), signed(Buffer.from([0xff, 0])))
  })
})

describe('webhook-signature, v1a', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const secret = newSecret(randomBytes)
  const parts = signature({ secrets: [secret], privateKeys: [privateKey] }, message).split(' ')
  const content = Buffer.concat([Buffer.from(`msg_1.${timestampSeconds}.`), body])
  const ed25519 = Buffer.from(parts[1]!.replace('v1a,', ''), 'base64')

  it('T-WH-01 is sent in addition to v1, and can be verified with the public key', () => {
    assert.deepEqual(
      parts.map((part) => part.split(',')[0]),
      ['v1', 'v1a'],
    )
    assert.ok(verify(null, content, publicKey, ed25519))
    assert.ok(reads(secret, message, parts.join(' ')))
  })

  it('T-WH-01 is invalid after any of 200 bit flips in the signed content', () => {
    const bits = Array.from({ length: 200 }, (_, n) => (n * 41) % (content.length * 8))
    assert.equal(bits.filter((bit) => verify(null, flipped(content, bit), publicKey, ed25519)).length, 0)
  })

  it('T-WH-02 contains a signature for each key during a rotation, even without a secret', () => {
    const next = generateKeyPairSync('ed25519')
    const rotated = signature({ secrets: [], privateKeys: [privateKey, next.privateKey] }, message).split(' ')
    const verifies = rotated.map((part, n) =>
      verify(null, content, [publicKey, next.publicKey][n]!, Buffer.from(part.slice(4), 'base64')),
    )
    assert.deepEqual(verifies, [true, true])
  })
})
