import { type Measured, medianOf, type Row } from './measured.ts'
import type { Memory } from './memory.ts'
import { disturbedShare } from './quietest.ts'

/** The most memory the service may take, over everything. */
export const ceilingMiB = 256

const whole = (value: number) => Math.round(value).toLocaleString('en')

const header = ['', 'reference /s', 'service /s', 'ratio', 'rounds', 'floor', '', 'CPU ratio', 'RSS MiB', 'peak']

/** The rows as a table for the terminal. */
export function table(rows: Row[]): string {
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
    whole(medianOf(row, 'reference')),
    whole(medianOf(row, 'service')),
    `${disturbed(row) ? '~' : ''}${ratio.toFixed(2)}`,
    ratios.map((value) => value.toFixed(2)).join('–'),
    floor.toFixed(2),
    ratio < floor ? 'BELOW FLOOR' : 'ok',
    row.cpuRatio.toFixed(2),
    memory.rssMiB.toFixed(0),
    memory.peakMiB.toFixed(0),
  ]
}

/** Whether somebody else used the server's core in a round that counts. */
const disturbed = ({ rounds }: Measured) =>
  rounds
    .flatMap(({ reference, service }) => [reference, service])
    .some((side) => Number(side.othersShare) > disturbedShare)

/** What the marks of the table mean. */
export const legend =
  'ratio: the median of the rounds; ~: somebody else used the core of the servers; CPU ratio: of the CPU time per request or row,\n' +
  'which that hardly moves; RSS and peak: memory of the service after the row and at most during it, MiB'

/** How busy each side was: the server has to be the busier one for a ratio to mean anything. */
export function busy(rows: Row[]): string {
  const lines = rows.flatMap((row) => ('skipped' in row ? [] : [busyLine(row)]))
  return lines.join('\n')
}

function busyLine(row: Measured): string {
  const part = (side: 'reference' | 'service') => {
    const share = (figure: string) => `${Math.round(medianOf(row, side, figure) * 100)} %`
    const us = medianOf(row, side, 'serverUs').toFixed(1)
    const generator = row.unit === 'requests' ? `, generator ${share('loadShare')}` : ''
    return `${side} ${share('serverShare')} of its core (${us} µs each)${generator}`
  }
  return `${row.title}: ${part('reference')}; ${part('service')}`
}

/** The most memory of the start and all rows. */
export const peakOf = (start: Memory, rows: Row[]): number =>
  Math.max(start.peakMiB, ...rows.map((row) => ('skipped' in row ? 0 : row.memory.peakMiB)))

/** What was missed, in words. */
export function missed(rows: Row[], peak: number): string[] {
  const low = rows.filter((row): row is Measured => !('skipped' in row) && row.ratio < row.floor)
  const lines = low.map(({ title, ratio, floor }) => `${title}: ${ratio.toFixed(2)} is below the floor of ${floor}`)
  return peak > ceilingMiB ? [...lines, `Memory: ${peak.toFixed(0)} MiB is above the ceiling of ${ceilingMiB}`] : lines
}
