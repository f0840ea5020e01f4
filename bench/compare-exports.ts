import { once } from 'node:events'
import { closeSync, createReadStream, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Bench } from './bench.ts'
import { pinned, serverCore } from './machine.ts'
import { withRatio } from './measured.ts'
import { forgetPeak, memoryOf } from './memory.ts'
import { meterOf } from './meter.ts'
import { quietest } from './quietest.ts'

/** Rows per second of an export itself, and from asking for it to having been told. */
export interface Exported extends ReturnType<ReturnType<typeof meterOf>['read']> {
  perSecond: number
  wholePerSecond: number
  [more: string]: unknown
}

/** Makes one export of so many rows. */
export type Export = (bench: Bench, count: number) => Promise<Exported>

export interface About {
  name: string
  title: string
  floor: number
  reference: string
}

/** A row of the table: two ways to export the same rows, in turn. */
export async function compareExports(bench: Bench, about: About, count: number, sides: Record<Side, Export>) {
  const { options, service, say } = bench
  say(`${about.title}: ${count.toLocaleString('en')} rows`)
  forgetPeak(service.pid)
  const measured = (round: number, side: Side) =>
    quietest(async () => {
      const exported = await sides[side](bench, count)
      say(`  ${round} ${side.padEnd(9)} ${sideLine(exported)}`)
      return exported
    })
  const rounds = []
  for (let round = 1; round <= options.rounds; round++) {
    rounds.push({ reference: await measured(round, 'reference'), service: await measured(round, 'service') })
  }
  return withRatio({ ...about, unit: 'rows' as const, rounds, memory: memoryOf(service.pid) })
}

type Side = 'reference' | 'service'

/** A command that writes the rows and a header as CSV to its output, from its start to its end. */
export async function commandExport({ place, pin }: Bench, command: string[], count: number): Promise<Exported> {
  const file = join(place.folder, 'reference.csv')
  const output = openSync(file, 'w')
  const start = performance.now()
  const child = place.start(pinned(pin, serverCore, command), { stdio: ['ignore', output, 'inherit'] })
  const meter = meterOf(child.pid as number)
  const looking = setInterval(meter.look, 10)
  const [code] = await once(child, 'exit')
  const perSecond = (count * 1_000) / (performance.now() - start)
  clearInterval(looking)
  closeSync(output)
  if (code !== 0) throw new Error(`${command[0]} ended with ${code}`)
  const used = meter.read(count)
  await expectLines(createReadStream(file), count + 1)
  rmSync(file)
  return { perSecond, wholePerSecond: perSecond, ...used }
}

export async function expectLines(stream: AsyncIterable<Buffer>, expected: number): Promise<void> {
  let lines = 0
  for await (const chunk of stream) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  if (lines !== expected) throw new Error(`The file has ${lines} lines instead of ${expected}`)
}

const thousands = (value: number) => Math.round(value).toLocaleString('en').padStart(9)
const percent = (share: number) => `${Math.round(share * 100)} %`.padStart(5)

const sideLine = ({ perSecond, wholePerSecond, serverShare, othersShare, serverUs }: Exported) =>
  `${thousands(perSecond)} rows/s   ${thousands(wholePerSecond)} from order to end   ` +
  `process ${percent(serverShare)} (${serverUs.toFixed(2)} µs each, others ${percent(othersShare)})`
