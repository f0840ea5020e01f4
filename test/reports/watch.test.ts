import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { slotLimiter } from '../../src/files/slots.ts'
import {
  maxWaiters,
  pollEveryMs,
  type TaskState,
  type TaskWatch,
  watchTasks,
} from '../../src/reports/wait-for-change.ts'
import { drivenTimers, until } from '../support/timers.ts'

describe('watchTasks', () => {
  let timers: ReturnType<typeof drivenTimers>
  let stored: Map<string, number>
  let looks: string[][]
  let broken: boolean
  let watch: TaskWatch
  const never = new AbortController().signal

  beforeEach(() => {
    timers = drivenTimers()
    stored = new Map([
      ['a', 1],
      ['b', 1],
    ])
    looks = []
    broken = false
    const states = async (ids: string[]) => {
      looks.push(ids)
      if (broken) throw new Error('the store is gone')
      const found = [...stored].filter(([id]) => ids.includes(id))
      return new Map(found.map(([id, revision]) => [id, { revision, isFinished: revision > 2 }]))
    }
    watch = watchTasks({ states, later: timers.later })
  })

  const isChanged = ({ revision }: TaskState) => revision !== 1
  /** Starts a wait for a task; `over` becomes true when the wait ends. */
  const wait = (id: string, ms = 5_000, signal = never, isMet = isChanged) => {
    const waiter = { over: false }
    watch.until(id, isMet, ms, signal)?.then(() => {
      waiter.over = true
    })
    return waiter
  }
  /** Lets one poll start and finish. */
  const runPoll = async () => {
    const before = looks.length
    timers.pass(pollEveryMs)
    await until(() => looks.length > before)
    await until(() => timers.pending().some((ms) => ms === pollEveryMs) || timers.pending().length === 0)
  }

  it('ends the wait when the revision changes, and not before', async () => {
    const waiter = wait('a')
    await runPoll()
    assert.equal(waiter.over, false)
    stored.set('a', 2)
    timers.pass(pollEveryMs)
    await until(() => waiter.over)
    assert.deepEqual(timers.pending(), [])
  })

  it('ends the wait only when its condition is met', async () => {
    const waiter = wait('a', 5_000, never, ({ isFinished }) => isFinished)
    stored.set('a', 2)
    await runPoll()
    assert.equal(waiter.over, false)
    stored.set('a', 3)
    timers.pass(pollEveryMs)
    await until(() => waiter.over)
  })

  it('ends the wait if the task no longer exists', async () => {
    const waiter = wait('a')
    stored.delete('a')
    timers.pass(pollEveryMs)
    await until(() => waiter.over)
  })

  it('ends the wait when it times out', async () => {
    const waiter = wait('a', 250)
    await runPoll()
    await runPoll()
    timers.pass(50)
    await until(() => waiter.over)
  })

  it('polls once for all waiters, querying each task only once, and does not poll without waiters', async () => {
    assert.deepEqual(timers.pending(), [])
    const waiters = ['a', 'b', 'a', 'b'].map((id) => wait(id))
    await runPoll()
    assert.deepEqual(looks, [['a', 'b']])
    stored.set('a', 2)
    await runPoll()
    assert.deepEqual(
      waiters.map(({ over }) => over),
      [true, false, true, false],
    )
    stored.set('b', 2)
    timers.pass(pollEveryMs)
    await until(() => waiters.every(({ over }) => over))
    assert.deepEqual(looks, [['a', 'b'], ['a', 'b'], ['b']])
    assert.deepEqual(timers.pending(), [])
    const late = wait('b')
    timers.pass(pollEveryMs)
    await until(() => late.over)
  })

  it('does not end a wait because of a poll that started before the wait', async () => {
    const first = wait('a')
    stored.set('a', 2)
    timers.pass(pollEveryMs)
    const second = wait('b')
    await until(() => first.over)
    await runPoll()
    assert.equal(second.over, false)
  })

  it('ends the wait when the signal is aborted, even if it was aborted before the call', async () => {
    const leaving = new AbortController()
    const waiter = wait('a', 5_000, leaving.signal)
    leaving.abort()
    await until(() => waiter.over)
    const gone = wait('a', 5_000, leaving.signal)
    await until(() => gone.over)
    timers.pass(pollEveryMs)
    assert.deepEqual(timers.pending(), [])
    assert.deepEqual(looks, [])
  })

  it('ends all waits after a storage error; later waits end when their tasks change', async () => {
    const waiters = [wait('a'), wait('b')]
    broken = true
    timers.pass(pollEveryMs)
    await until(() => waiters.every(({ over }) => over))
    assert.deepEqual([looks, timers.pending()], [[['a', 'b']], []])
    broken = false
    const later = wait('a')
    await runPoll()
    assert.equal(later.over, false)
    stored.set('a', 2)
    timers.pass(pollEveryMs)
    await until(() => later.over)
  })

  it('ends the wait when the service stops, and accepts no further waits', async () => {
    const waiter = wait('a')
    watch.close()
    await until(() => waiter.over)
    assert.equal(watch.until('a', isChanged, 5_000, never), undefined)
  })
})

describe('slotLimiter', () => {
  const caller = (clientId: string, subject = clientId) => ({ clientId, subject })

  it('allows 20 waiting requests per account (client and subject), and 1,000 in total', () => {
    const { slots } = watchTasks({ states: async () => new Map(), later: drivenTimers().later })
    const { signal } = new AbortController()
    for (let n = 0; n < 20; n++) assert.equal(slots.take(caller('a'), signal), undefined)
    assert.equal(slots.take(caller('a'), signal), 'account')
    assert.equal(slots.take(caller('a', 'another subject'), signal), undefined)
    for (let n = 0; n < 979; n++) assert.equal(slots.take(caller(`client ${n}`), signal), undefined)
    assert.equal(slots.take(caller('b'), signal), 'process')
    assert.equal(maxWaiters, 1_000)
  })

  it('frees a slot when the signal is aborted, even if it was aborted before the call', () => {
    const { take } = slotLimiter({ perAccount: 1, inTotal: 1 })
    const first = new AbortController()
    assert.equal(take(caller('a'), first.signal), undefined)
    assert.equal(take(caller('a'), first.signal), 'account')
    assert.equal(take(caller('b'), first.signal), 'process')
    first.abort()
    for (let n = 0; n < 3; n++) assert.equal(take(caller('b'), first.signal), undefined)
    assert.equal(take(caller('a'), new AbortController().signal), undefined)
  })
})
