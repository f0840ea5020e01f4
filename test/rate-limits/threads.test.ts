import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { limitOf } from '../../src/rate-limits/limit.ts'
import { cellMemory, cellsIn } from '../../src/rate-limits/threads/cells.ts'
import { limitCells, limitMemory } from '../../src/rate-limits/threads/limit-cells.ts'
import { consume, peek } from '../../src/rate-limits/threads/window-cell.ts'

const atMs = Date.parse('2026-11-22T10:00:00.000Z')

describe('limits shared by several threads', () => {
  it('allow exactly as many calls as in a single thread', async () => {
    const memory = limitMemory()
    const accounts = Array.from({ length: 20 }, (_, at) => `client:partner,${at}`)
    const counted = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const worker = new Worker(new URL('counting-thread.ts', import.meta.url), {
          workerData: { memory, accounts, atMs },
        })
        const [allowed] = await once(worker, 'message')
        await worker.terminate()
        return allowed as Record<'window' | 'quota' | 'pace', number>
      }),
    )
    const sumOf = (name: 'window' | 'quota' | 'pace') => counted.reduce((sum, one) => sum + one[name], 0)
    assert.deepEqual([sumOf('window'), sumOf('quota'), sumOf('pace')], [2_000, 2_000, 2_000])
  })

  it('begin a new window for all threads when the old one has ended', () => {
    const memory = limitMemory()
    const limit = limitOf('default', { calls: 2, seconds: 60 })
    let now = atMs
    const thread = () => {
      const cellsOf = limitCells({ memory, now: () => now, monotonic: () => now })
      return { windows: [], cells: cellsOf('client:partner,7') }
    }
    const [one, other] = [thread(), thread()]
    assert.equal(consume(one, limit, now).used, 1)
    now += 59_999
    assert.equal(consume(other, limit, now).used, 2)
    assert.equal(consume(one, limit, now).used, 3)
    assert.equal(peek(other, limit, now).used, 3)
    now += 1
    assert.equal(peek(other, limit, now).used, 0)
    assert.deepEqual([consume(other, limit, now).used, consume(one, limit, now).used], [1, 2])
  })

  it('reuse the cell of an expired key for another key', () => {
    const isOver = (value: bigint) => value === 9n
    const memory = cellMemory()
    const cellOf = cellsIn(memory, isOver)
    const cells = Array.from({ length: 65_536 }, (_, at) => cellOf(`key ${at}`))
    for (const cell of cells) cell.swap(0n, 9n)
    const late = cellsIn(memory, isOver)('another key')
    assert.ok(late.swap(0n, 5n))
    assert.equal(cellsIn(memory, isOver)('another key').load(), 5n)
  })

  // A thread looks for the key in up to 32 cells, then reads the key of the cell that it takes once more.
  for (const [title, previousKey, value, keysRead] of [
    ['an unused cell', 0n, 0n, 2],
    ['the cell of an expired key', 7n, 9n, 33],
  ] as const) {
    it(`keep the count of a thread that takes ${title} while another thread takes it`, (t) => {
      const memory = cellMemory()
      new BigUint64Array(memory, 0, 65_536).fill(previousKey)
      new BigUint64Array(memory, 65_536 * 8).fill(value)
      const cell = () => cellsIn(memory, (found) => found === 9n)('the key')
      const { load } = Atomics
      let left: number = keysRead
      t.mock.method(Atomics, 'load', (array: BigUint64Array, at: number) => {
        const found = load(array, at)
        if (array.byteOffset === 0 && --left === 0) assert.ok(cell().swap(0n, 5n))
        return found
      })
      const late = cell()
      t.mock.restoreAll()
      assert.ok(left < 0)
      assert.equal(late.load(), 5n)
    })
  }

  it('are counted per thread for keys that get no shared cell', () => {
    const memory = cellMemory()
    const cellOf = cellsIn(memory, () => false)
    const cells = Array.from({ length: 80_000 }, (_, at) => cellOf(`key ${at}`))
    for (const cell of cells) assert.ok(cell.swap(0n, 1n))
    for (const cell of cells) assert.equal(cell.load(), 1n)
  })
})
