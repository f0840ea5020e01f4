import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Bench, Options } from './bench.ts'
import { describeMachine, type Memory } from './cpu-and-memory.ts'

/** The result of the service or the reference in one round; `perSecond` is in the table row's unit. */
export interface Side {
  perSecond: number
  [more: string]: unknown
}

/** A measured table row. */
export interface Measured {
  name: string
  title: string
  unit: 'requests' | 'rows' | 'deliveries' | 'calls' | 'starts'
  reference: string
  /** The minimum acceptable ratio. */
  floor: number
  rounds: { reference: Side; service: Side }[]
  /** The median of the rounds' ratios; anything that slows the machine down affects both sides of a round. */
  ratio: number
  /** The median of the rounds' CPU time ratios. */
  cpuRatio: number
  /** The lowest and the highest ratio of a round. */
  ratios: [min: number, max: number]
  memory: Memory
}

export interface Skipped {
  name: string
  title: string
  skipped: string
}

export type Row = Measured | Skipped

type Rounds = Omit<Measured, 'ratio' | 'cpuRatio' | 'ratios'>

/** Computes the ratios from the rounds. */
export function withRatio(row: Rounds): Measured {
  const ratios = row.rounds.map(({ reference, service }) => service.perSecond / reference.perSecond)
  const cpuRatios = row.rounds.map(({ reference, service }) => Number(reference.serverUs) / Number(service.serverUs))
  const [ratio, cpuRatio] = [median(ratios), median(cpuRatios)]
  return { ...row, ratio, cpuRatio, ratios: [Math.min(...ratios), Math.max(...ratios)] }
}

/** Returns the median of one side's figure over all rounds. */
export function medianOf({ rounds }: Pick<Measured, 'rounds'>, side: 'reference' | 'service', figure = 'perSecond') {
  return median(rounds.map((round) => Number(round[side][figure])))
}

function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] as number
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}

/** A measurement is unreliable if other processes use more than this fraction of the servers' core. */
export const disturbedShare = 0.1

const maxAttempts = 3

/**
 * Repeats a measurement while other processes interfere, at most twice. Returns the run with the least interference.
 */
export async function bestRun<T extends { othersShare: number }>(measure: () => Promise<T>): Promise<T> {
  let best = await measure()
  for (let attempt = 1; attempt < maxAttempts && best.othersShare > disturbedShare; attempt++) {
    const next = await measure()
    if (next.othersShare < best.othersShare) best = next
  }
  return best
}

/** Maximum memory that the service may use over the whole run. */
const maxMiB = 256

const integer = (value: number) => Math.round(value).toLocaleString('en')

const header = ['', 'reference /s', 'service /s', 'ratio', 'rounds', 'floor', '', 'CPU ratio', 'RSS MiB', 'peak']

/** Formats the rows as a table. */
function table(rows: Row[]): string {
  const lines = rows.map((row) => ('skipped' in row ? [row.title, `SKIPPED: ${row.skipped}`] : cells(row)))
  const all = [header, ...lines]
  const widths = header.map((_, at) =>
    Math.max(...all.filter(({ length }) => length > 2).map((line) => line[at]?.length ?? 0)),
  )
  const format = (line: string[]) =>
    line.map((cell, at) => (at === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[at] ?? 0))).join('  ')
  return all.map(format).join('\n')
}

function cells(row: Measured): string[] {
  const { title, ratio, ratios, floor, memory } = row
  return [
    title,
    integer(medianOf(row, 'reference')),
    integer(medianOf(row, 'service')),
    `${disturbed(row) ? '~' : ''}${ratio.toFixed(2)}`,
    ratios.map((value) => value.toFixed(2)).join('–'),
    floor.toFixed(2),
    ratio < floor ? 'BELOW FLOOR' : 'ok',
    row.cpuRatio.toFixed(2),
    memory.rssMiB.toFixed(0),
    memory.peakMiB.toFixed(0),
  ]
}

/** Returns true if other processes used too much of the servers' core in any round. */
const disturbed = ({ rounds }: Measured) =>
  rounds
    .flatMap(({ reference, service }) => [reference, service])
    .some((side) => Number(side.othersShare) > disturbedShare)

/** Explains the columns of the table. */
const legend =
  'ratio: median of the rounds; ~: another process used the core of the servers; CPU ratio: of the CPU time per unit, which\n' +
  'that hardly affects; RSS and peak: memory of the service after the row, and its maximum during the row, in MiB'

/** Reports how busy both servers were: a ratio is meaningful only if each server is busier than the load generator. */
function busy(rows: Row[]): string {
  const lines = rows.flatMap((row) => ('skipped' in row ? [] : [busyLine(row)]))
  return lines.join('\n')
}

function busyLine(row: Measured): string {
  const part = (side: 'reference' | 'service') => {
    const share = (figure: string) => `${Math.round(medianOf(row, side, figure) * 100)} %`
    const us = medianOf(row, side, 'serverUs').toFixed(1)
    const isKnown = row.unit === 'requests' && !Number.isNaN(medianOf(row, side, 'loadShare'))
    const generator = isKnown ? `, generator ${share('loadShare')}` : ''
    return `${side} ${share('serverShare')} of its core (${us} µs each)${generator}`
  }
  return `${row.title}: ${part('reference')}; ${part('service')}`
}

/** Returns the maximum memory at startup and across all rows. */
const peakOf = (start: Memory, rows: Row[]): number =>
  Math.max(start.peakMiB, ...rows.map((row) => ('skipped' in row ? 0 : row.memory.peakMiB)))

/** Returns one sentence for each ratio below its floor, and one if the service used too much memory. */
function missed(rows: Row[], peak: number): string[] {
  const low = rows.filter((row): row is Measured => !('skipped' in row) && row.ratio < row.floor)
  const lines = low.map(({ title, ratio, floor }) => `${title}: ${ratio.toFixed(2)} is below the floor of ${floor}`)
  return peak > maxMiB ? [...lines, `Memory: ${peak.toFixed(0)} MiB is above the maximum of ${maxMiB} MiB`] : lines
}

/** Prints the results and writes them to a file; returns the exit code. */
export function conclude({ options, pin, start, say }: Bench, started: Date, rows: Row[]): number {
  const peak = peakOf(start, rows)
  const failures = missed(rows, peak)
  say(`\n${table(rows)}\n\n${legend}\n\n${busy(rows)}\n`)
  const memory = [`${start.rssMiB.toFixed(0)} MiB after the start`, `${peak.toFixed(0)} MiB maximum`]
  say(`Memory of the service: ${memory.join(', ')} (limit ${maxMiB})`)
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
