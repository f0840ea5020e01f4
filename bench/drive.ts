import { once } from 'node:events'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import type { LoadOrder, LoadResult } from './load-order.ts'
import { loadCore, pinned } from './machine.ts'
import type { Workplace } from './workplace.ts'

const program = resolve(import.meta.dirname, 'load.ts')

/** Runs the load generator once; throws when it fails or an answer has another status than the expected one. */
export async function drive(place: Workplace, pin: boolean, order: LoadOrder, expected: number): Promise<LoadResult> {
  const command = pinned(pin, loadCore, [process.execPath, program])
  const child = place.start(command, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  child.stdin?.end(JSON.stringify(order))
  const output = await text(child.stdout as NodeJS.ReadableStream & AsyncIterable<Buffer>)
  const [code] = await ended
  if (code !== 0) throw new Error(`The load generator ended with ${code}`)
  const result = JSON.parse(output) as LoadResult
  const wrong = Object.entries(result.statuses).filter(([status]) => Number(status) !== expected)
  if (wrong.length > 0) throw new Error(`Expected only ${expected}, got ${JSON.stringify(result.statuses)}`)
  return result
}
