import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { type ThreadPool, threadPool } from '../../src/storage/thread-pool.ts'
import { drivenTimers, until } from '../support/timers.ts'

interface Task {
  /** What the thread does: responds with its thread id, never responds, or fails. */
  does: 'respond' | 'report' | 'wait' | 'throw'
}

const program = new URL(
  `data:text/javascript,${encodeURIComponent(`
    import { parentPort, threadId } from 'node:worker_threads'
    parentPort.on('message', ({ does }) => {
      if (does === 'throw') throw new Error('the task failed')
      if (does === 'wait') return
      if (does === 'report') for (const progress of [0.25, 0.5]) parentPort.postMessage({ progress })
      parentPort.postMessage({ outcome: threadId })
    })
  `)}`,
)

describe('threadPool', () => {
  const pools: { close: () => Promise<void> }[] = []
  afterEach(() => Promise.all(pools.splice(0).map((pool) => pool.close())))

  function open() {
    const timers = drivenTimers()
    const pool: ThreadPool<Task, number, number> = threadPool({
      ...{ program, workerData: null, resourceLimits: {}, setTimer: timers.later },
    })
    pools.push(pool)
    const run = (does: Task['does'], signal = new AbortController().signal) => pool.run({ does }, signal)
    return { pool, run, timers }
  }

  it('runs tasks one after the other in the same thread', async () => {
    const { run } = open()
    const first = await run('respond')
    assert.deepEqual([await run('respond'), await run('respond')], [first, first])
  })

  it('runs tasks at the same time in different threads', async () => {
    const { run } = open()
    const [one, other] = await Promise.all([run('respond'), run('respond')])
    assert.notEqual(one, other)
  })

  it('passes on the progress, then the outcome', async () => {
    const { pool } = open()
    const progress: number[] = []
    const outcome = await pool.run({ does: 'report' }, new AbortController().signal, (share) => progress.push(share))
    assert.deepEqual([progress, typeof outcome], [[0.25, 0.5], 'number'])
  })

  it('ends a thread that has had no task for 30 s', async () => {
    const { run, timers } = open()
    const first = await run('respond')
    timers.pass(29_999)
    assert.equal(await run('respond'), first)
    assert.deepEqual(timers.pending(), [30_000])
    timers.pass(30_000)
    assert.notEqual(await run('respond'), first)
  })

  it("rejects with the signal's reason when it is aborted, and runs the next task in a new thread", async () => {
    const { run } = open()
    const first = await run('respond')
    const aborting = new AbortController()
    const waiting = run('wait', aborting.signal)
    aborting.abort(new Error('cancelled'))
    await assert.rejects(waiting, /^Error: cancelled$/)
    assert.notEqual(await run('respond'), first)
  })

  it('starts no thread if the signal is already aborted', async () => {
    const first = await open().run('respond')
    const { run } = open()
    await assert.rejects(run('respond', AbortSignal.abort(new Error('cancelled'))), /^Error: cancelled$/)
    // The ids of threads are consecutive.
    assert.equal(await run('respond'), first + 1)
  })

  it('rejects with the error of a thread that fails, and runs the next task in a new thread', async () => {
    const { run } = open()
    const first = await run('respond')
    await assert.rejects(run('throw'), /^Error: the task failed$/)
    assert.notEqual(await run('respond'), first)
  })

  it('rejects tasks that are running when it closes', async () => {
    const { pool, run } = open()
    const waiting = assert.rejects(run('wait'), /^Error: The thread exited with code \d$/)
    await pool.close()
    await waiting
  })

  it('stops the timers of idle threads when it closes', async () => {
    const { pool, run, timers } = open()
    await run('respond')
    await pool.close()
    await until(() => timers.pending().length === 0)
    assert.deepEqual(timers.pending(), [])
  })
})
