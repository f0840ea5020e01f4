import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'

const module = new URL('../../src/storage/low-priority.ts', import.meta.url).href
const skip = existsSync('/proc/thread-self') ? false : 'only Linux has a priority for each thread'

/** Posts the nice value, the 19th field of /proc/…/stat, before and after the call. */
const program = `
  import { readFileSync } from 'node:fs'
  import { parentPort } from 'node:worker_threads'
  import { lowerPriority } from ${JSON.stringify(module)}
  const nice = (path) => Number(readFileSync(path, 'utf8').split(') ')[1].split(' ')[16])
  const before = nice('/proc/thread-self/stat')
  lowerPriority()
  parentPort.postMessage({ before, after: nice('/proc/thread-self/stat'), main: nice('/proc/self/stat') })
`

describe('lowerPriority', { skip }, () => {
  it('lowers the priority of the calling thread, and of no other thread', async () => {
    const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`))
    const [nice] = await once(worker, 'message')
    await worker.terminate()
    assert.deepEqual(nice, { before: nice.main, after: nice.main + 10, main: nice.main })
  })
})
