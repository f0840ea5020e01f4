import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { channels, type StreamView } from '../../../src/resources/streams/channels.ts'
import type { LoggedChange } from '../../../src/storage/row-changes/read.ts'

const logged = (at: number, id = at): LoggedChange => ({
  ...{ at, tag: 'tag', noun: 'note', change: 'created', id, before: null },
  after: { id, text: `note ${id}` },
})

/** Creates a view of all notes that counts the changes that it has evaluated. */
function viewOf(key: string | null, isLast = false) {
  const counts = { evaluated: 0 }
  const view: StreamView = {
    ...{ noun: 'note', key, only: null },
    eventFor: ({ rowId }) => {
      counts.evaluated++
      return { text: `${rowId};`, isLast }
    },
  }
  return { view, counts }
}

/** Creates a stream that records what it is sent, and whether it ends or fails. */
function receiver() {
  const received: (string | Buffer)[] = []
  const ends: unknown[] = []
  return {
    ...{ received, ends, send: (content: string | Buffer) => void received.push(content) },
    end: () => void ends.push('end'),
    fail: (error: unknown) => void ends.push(error),
    texts: () => received.map(String),
  }
}

describe('channels', () => {
  it('evaluates each change once for all streams with the same key', () => {
    const all = channels()
    const { view, counts } = viewOf('same')
    const receivers = Array.from({ length: 100 }, receiver)
    for (const one of receivers) all.add(one, { ...view }, 0)
    all.collect(logged(1))
    all.collect(logged(2))
    assert.equal(all.flush(), 100)
    assert.equal(counts.evaluated, 2)
    for (const one of receivers) assert.deepEqual(one.texts(), ['1;2;'])
    const contents = new Set(receivers.map(({ received }) => received[0]))
    assert.equal(contents.size, 1)
  })

  it('evaluates each change for each stream without a key', () => {
    const all = channels()
    const { view, counts } = viewOf(null)
    const receivers = [receiver(), receiver()]
    for (const one of receivers) all.add(one, view, 0)
    all.collect(logged(1))
    all.flush()
    assert.equal(counts.evaluated, 2)
    for (const one of receivers) assert.deepEqual(one.texts(), ['1;'])
  })

  it('does not evaluate changes to other resources, or any changes once all streams are removed', () => {
    const all = channels()
    const { view, counts } = viewOf('same')
    const removals = [receiver(), receiver()].map((one) => all.add(one, view, 0))
    all.collect({ ...logged(1), noun: 'secret' })
    for (const remove of removals) remove()
    all.collect(logged(2))
    assert.equal(all.flush(), 0)
    assert.equal(counts.evaluated, 0)
    assert.deepEqual(all.nouns(), [])
  })

  it('sends a stream only the events after its start position', () => {
    const all = channels()
    const { view } = viewOf('same')
    const [early, late] = [receiver(), receiver()]
    all.add(early, view, 0)
    all.add(late, view, 2)
    for (const at of [1, 2, 3]) all.collect(logged(at))
    all.flush()
    assert.deepEqual(early.texts(), ['1;2;3;'])
    assert.deepEqual(late.texts(), ['3;'])
  })

  it('sends nothing if there are no new events', () => {
    const all = channels()
    const one = receiver()
    all.add(one, viewOf('same').view, 0)
    assert.equal(all.flush(), 0)
    all.collect(logged(1))
    all.flush()
    assert.equal(all.flush(), 0)
    assert.deepEqual(one.texts(), ['1;'])
  })

  it('ends a stream after its last event, and sends no event after it', () => {
    const all = channels()
    const one = receiver()
    all.add(one, viewOf('same', true).view, 0)
    all.collect(logged(1))
    all.collect(logged(2))
    all.flush()
    assert.deepEqual(one.texts(), ['1;'])
    assert.deepEqual(one.ends, ['end'])
  })

  it('fails only the streams with a view that throws', () => {
    const all = channels()
    const error = new Error('not readable')
    const [failing, other] = [receiver(), receiver()]
    all.add(failing, { noun: 'note', key: 'failing', only: null, eventFor: () => assert.fail(error) }, 0)
    all.add(other, viewOf('other').view, 0)
    all.collect(logged(1))
    all.flush()
    assert.deepEqual(failing.ends, [error])
    assert.deepEqual(other.texts(), ['1;'])
  })
})
