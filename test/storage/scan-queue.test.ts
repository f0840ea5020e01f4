import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { ScanRefused } from '../../src/storage/scans/scan.ts'
import { scanQueue } from '../../src/storage/scans/scan-queue.ts'
import { drivenTimers } from '../support/timers.ts'

/** Creates a queue of scans that end only when the test ends them. */
function queueOf(bounds: Partial<Parameters<typeof scanQueue>[0]> = {}) {
  const timers = drivenTimers()
  const options = { running: 2, runningPerAccount: 1, waiting: 100, waitingPerAccount: 50, limitMs: 5_000 }
  const queue = scanQueue({ ...options, setTimer: timers.later, ...bounds })
  const running: { name: string; end: () => void; signal: AbortSignal }[] = []
  const started: string[] = []
  const run = (account: string, name = account, signal?: AbortSignal) =>
    queue
      .run({ account, ...(signal && { signal }) }, (stop) => {
        const { promise, resolve } = Promise.withResolvers<void>()
        started.push(name)
        running.push({ name, end: resolve, signal: stop })
        return promise.then(() => name)
      })
      .then(
        (value) => value,
        (error) => (error instanceof ScanRefused ? `refused: ${error.message}` : Promise.reject(error)),
      )
  const endNext = async () => {
    running.shift()?.end()
    await turn()
  }
  return { queue, timers, run, started, running, endNext }
}

describe('scanQueue', () => {
  it('runs at most one scan per account and two in total at a time', async () => {
    const { run, started, endNext } = queueOf()
    const answers = [run('a', 'a1'), run('a', 'a2'), run('b', 'b1'), run('c', 'c1')]
    assert.deepEqual(started, ['a1', 'b1'])
    for (let left = 4; left > 0; left--) await endNext()
    assert.deepEqual(await Promise.all(answers), ['a1', 'a2', 'b1', 'c1'])
  })

  it('lets accounts take turns: only two of one account’s fifty scans start before another account’s first scan', async () => {
    const { run, started, endNext } = queueOf({ running: 1 })
    const many = Array.from({ length: 50 }, (_, at) => run('a', `a${at}`))
    const few = [run('b', 'b0'), run('b', 'b1'), run('c', 'c0')]
    for (let left = 53; left > 0; left--) await endNext()
    assert.deepEqual(started.slice(0, 7), ['a0', 'a1', 'b0', 'c0', 'a2', 'b1', 'a3'])
    assert.equal((await Promise.all([...many, ...few])).length, 53)
  })

  it('rejects scans if too many are already waiting, for the account or in total', async () => {
    const { run, endNext } = queueOf({ running: 1, waitingPerAccount: 2, waiting: 4 })
    const a = [run('a'), run('a'), run('a'), run('a')]
    assert.match(await (a[3] as Promise<string>), /^refused: This account already has too many/)
    const others = [run('b'), run('c'), run('d')]
    assert.match(await (others[2] as Promise<string>), /^refused: Too many reads are already waiting/)
    for (let left = 5; left > 0; left--) await endNext()
    assert.deepEqual(await Promise.all([...a.slice(0, 3), ...others.slice(0, 2)]), ['a', 'a', 'a', 'b', 'c'])
  })

  it('rejects waiting and running scans at the time limit, but starts the next one only after the running scan ends', async () => {
    const { run, timers, started, running, endNext } = queueOf({ running: 1 })
    const [first, second] = [run('a'), run('b')]
    timers.pass(4_999)
    assert.equal(running[0]?.signal.aborted, false)
    const third = run('c')
    timers.pass(1)
    assert.match(await first, /^refused: The read did not finish within 5000 ms/)
    assert.match(await second, /^refused: The read did not finish/)
    assert.equal(running[0]?.signal.aborted, true)
    await turn()
    assert.deepEqual(started, ['a'])
    await endNext()
    assert.deepEqual(started, ['a', 'c'])
    await endNext()
    assert.equal(await third, 'c')
    assert.deepEqual(timers.pending(), [])
  })

  it('does not run a scan whose client has disconnected', async () => {
    const { run, started, endNext } = queueOf({ running: 1 })
    const closed = new AbortController()
    const answers = [run('a'), run('b', 'b', closed.signal), run('c')]
    closed.abort()
    assert.match(await (answers[1] as Promise<string>), /^refused: The client closed the connection/)
    assert.match(await run('d', 'd', closed.signal), /^refused/)
    await endNext()
    await endNext()
    assert.deepEqual([await answers[0], await answers[2]], ['a', 'c'])
    assert.deepEqual(started, ['a', 'c'])
  })

  it('rejects all scans when it is closed, and waits for running scans to end', async () => {
    const { queue, run, running } = queueOf({ running: 1 })
    const answers = [run('a'), run('b')]
    let isClosed = false
    const closed = queue.close().then(() => {
      isClosed = true
    })
    for (const answer of answers) assert.match(await answer, /^refused: The database is closing/)
    await turn()
    assert.equal(isClosed, false)
    running[0]?.end()
    await closed
    assert.match(await run('c'), /^refused/)
  })
})
