import { once } from 'node:events'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import type { LoadOrder, LoadResult } from './load-order.ts'
import { loadCore, pinned } from './machine.ts'
import type { OpenOrder, OpenResult } from './open-order.ts'
import type { Workplace } from './workplace.ts'

const program = resolve(import.meta.dirname, 'load.ts')
const openProgram = resolve(import.meta.dirname, 'open-load.ts')

/** Runs the load generator once; throws when it fails or an answer has another status than the expected one; null is any. */
export async function drive(
  place: Workplace,
  pin: boolean,
  order: LoadOrder,
  expected: number | null,
): Promise<LoadResult> {
  const result = await generate<LoadResult>(place, pin, program, order)
  if (expected === null) return result
  const wrong = Object.entries(result.statuses).filter(([status]) => Number(status) !== expected)
  if (wrong.length > 0) throw new Error(`Expected only ${expected}, got ${JSON.stringify(result.statuses)}`)
  return result
}

/** Runs the open-loop generator once; throws when it fails. */
export const driveOpen = (place: Workplace, pin: boolean, order: OpenOrder): Promise<OpenResult> =>
  generate(place, pin, openProgram, order)

async function generate<Result>(place: Workplace, pin: boolean, file: string, order: object): Promise<Result> {
  const child = place.start(pinned(pin, loadCore, [process.execPath, file]), { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  child.stdin?.end(JSON.stringify(order))
  const output = await text(child.stdout as NodeJS.ReadableStream & AsyncIterable<Buffer>)
  const [code] = await ended
  if (code !== 0) throw new Error(`The load generator ended with ${code}`)
  return JSON.parse(output) as Result
}
