import { parentPort, workerData } from 'node:worker_threads'
import { limitOf } from '../../src/rate-limits/limit.ts'
import { type LimitMemory, limitCells } from '../../src/rate-limits/threads/limit-cells.ts'
import { takeFromCell } from '../../src/rate-limits/threads/quota-cell.ts'
import { consume } from '../../src/rate-limits/threads/window-cell.ts'
import { newDelayQueue, reserve } from '../../src/rate-limits/throttle.ts'

// Counts 500 calls of each of several accounts; posts how many calls the limit, the quota and the burst allowed.
const { memory, accounts, atMs } = workerData as { memory: LimitMemory; accounts: string[]; atMs: number }
const now = () => atMs
const cellsOf = limitCells({ memory, now, monotonic: now })
const limit = limitOf('default', { calls: 100, seconds: 60 })
const allowed = { window: 0, quota: 0, pace: 0 }
for (const account of accounts) {
  const cells = cellsOf(account)
  const counting = { windows: [], cells }
  const quota = { period: '2026-11', used: 0, limit: 100 }
  const queue = newDelayQueue({ calls: 1, seconds: 3_600, burst: 100 }, null, cells.pace)
  for (let call = 0; call < 500; call++) {
    if (consume(counting, limit, atMs).used <= limit.calls) allowed.window++
    if (takeFromCell(quota, cells.quota('requests'))) allowed.quota++
    if (reserve(queue, atMs) === 'free') allowed.pace++
  }
}
parentPort?.postMessage(allowed)
