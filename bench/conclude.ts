import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Bench } from './bench.ts'
import { describeMachine } from './machine.ts'
import type { Row } from './measured.ts'
import type { Options } from './options.ts'
import { busy, ceilingMiB, legend, missed, peakOf, table } from './table.ts'

/** Prints and writes what was measured; returns the exit code. */
export function conclude({ options, pin, start, say }: Bench, started: Date, rows: Row[]): number {
  const peak = peakOf(start, rows)
  const failures = missed(rows, peak)
  say(`\n${table(rows)}\n\n${legend}\n\n${busy(rows)}\n`)
  const memory = [`${start.rssMiB.toFixed(0)} MiB after the start`, `${peak.toFixed(0)} MiB at most over everything`]
  say(`Memory of the service: ${memory.join(', ')} (ceiling ${ceilingMiB})`)
  for (const failure of failures) say(`BELOW FLOOR  ${failure}`)
  const about = { started, options, machine: describeMachine(pin), fastify: fastifyVersion() }
  say(`Written to ${write(options, { ...about, start, peak, failures, rows })}`)
  return options.check && failures.length > 0 ? 1 : 0
}

function write({ json }: Options, figures: { started: Date; [more: string]: unknown }): string {
  const name = figures.started.toISOString().slice(0, 19).replaceAll(':', '-')
  const file = json ?? resolve(import.meta.dirname, `results/${name}.json`)
  mkdirSync(dirname(resolve(file)), { recursive: true })
  writeFileSync(file, `${JSON.stringify(figures, null, 2)}\n`)
  return file
}

function fastifyVersion(): string {
  const file = resolve(import.meta.dirname, '../node_modules/fastify/package.json')
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
