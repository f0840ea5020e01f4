import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { timedReads } from '../../src/files/s3.ts'
import { ResultsUnavailable } from '../../src/files/store.ts'
import { until } from '../support/timers.ts'

describe('timedReads', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }))
  afterEach(() => mock.timers.reset())

  /** Returns a stream of the chunks that the test pushes. */
  const source = () => new Readable({ read() {} })

  it('yields all bytes, in order', async () => {
    const chunks = ['a', 'bc', 'd'.repeat(100_000)].map((text) => Buffer.from(text))
    const read = await timedReads(Readable.from(chunks, { objectMode: false }), 10).toArray()
    assert.deepEqual(Buffer.concat(read), Buffer.concat(chunks))
    mock.timers.tick(1_000)
  })

  it('fails if the next chunk takes too long, and destroys the source', async () => {
    const from = source()
    const timed = timedReads(from, 10_000)
    const failed = assert.rejects(async () => {
      for await (const _ of timed);
    }, ResultsUnavailable)
    from.push('one')
    await until(() => from.readableLength === 0)
    mock.timers.tick(9_999)
    assert.equal(from.destroyed, false)
    mock.timers.tick(1)
    await failed
    assert.equal(from.destroyed, true)
  })

  it('does not count the time while its consumer is not reading', async () => {
    const from = source()
    const timed = timedReads(from, 10)
    for (let n = 0; n < 40; n++) from.push(Buffer.alloc(65_536))
    timed.once('readable', () => {})
    await until(() => timed.readableLength >= timed.readableHighWaterMark)
    mock.timers.tick(1_000_000)
    assert.equal(timed.destroyed, false)
    from.push(null)
    assert.equal(Buffer.concat(await timed.toArray()).length, 40 * 65_536)
  })

  it('fails if its source fails', async () => {
    const from = source()
    const failed = assert.rejects(timedReads(from, 10).toArray(), /broken/)
    from.destroy(new Error('broken'))
    await failed
  })

  it('destroys its source when it is destroyed, even while waiting for data', async () => {
    const from = source()
    const timed = timedReads(from, 10)
    timed.resume()
    timed.destroy()
    await until(() => from.closed && timed.closed)
  })
})
