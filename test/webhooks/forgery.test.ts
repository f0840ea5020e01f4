import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { newSecret, signature } from '../../src/webhooks/dispatch/sign.ts'

const seed = process.env.SEED ?? String(Date.now())

/** Returns a function that generates reproducible random integers below a bound. */
function numbers(of: string): (below: number) => number {
  let drawn = 0
  return (below) => createHash('sha256').update(`${of} ${drawn++}`).digest().readUInt32BE() % below
}

const count = 1_000

describe(`a signed call with one flipped bit (SEED=${seed})`, () => {
  it(`T-WH-01 is rejected by the standardwebhooks library, for bits in the body or a header (${count} calls)`, () => {
    const draw = numbers(seed)
    const secret = newSecret((size) => createHash('sha512').update(seed).digest().subarray(0, size))
    const timestampSeconds = Math.floor(Date.now() / 1_000)
    const body = Buffer.from('{"taskId":"tsk_1","status":"completed","resultUrl":"/api/reports/tsk_1/download?é=ü"}')
    const signed = signature({ secrets: [secret] }, { id: 'msg_1', timestampSeconds, body })
    const parts: Buffer[] = [body, Buffer.from('msg_1'), Buffer.from(String(timestampSeconds)), Buffer.from(signed)]
    const verifies = (call: readonly Buffer[]) => {
      const [bytes, id, timestamp, signatures] = call as [Buffer, Buffer, Buffer, Buffer]
      const headers = {
        'webhook-id': id.toString('latin1'),
        'webhook-timestamp': timestamp.toString('latin1'),
        'webhook-signature': signatures.toString('latin1'),
      }
      try {
        new Webhook(secret).verify(bytes, headers, { jsonParse: false })
        return true
      } catch {
        return false
      }
    }
    assert.ok(verifies(parts))
    const taken: string[] = []
    for (let n = 0; n < count; n++) {
      // Half of the flips are in the body, the rest in the three headers.
      const at = n % 2 === 0 ? 0 : 1 + draw(3)
      const flipped = parts.map((part) => Buffer.from(part))
      const part = flipped[at] as Buffer
      const bit = draw(part.length * 8)
      part[bit >> 3] = (part[bit >> 3] as number) ^ (1 << (bit & 7))
      if (verifies(flipped)) taken.push(`part ${at}, bit ${bit}: ${part.toString('latin1')}`)
    }
    assert.deepEqual(taken, [])
  })
})
