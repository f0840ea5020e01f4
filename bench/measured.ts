import type { Memory } from './memory.ts'

/** One side of one round: rates in requests or rows per second. */
export interface Side {
  perSecond: number
  [more: string]: unknown
}

/** A line of the table. */
export interface Measured {
  name: string
  title: string
  unit: 'requests' | 'rows' | 'deliveries' | 'calls'
  reference: string
  /** The least ratio that is good enough. */
  floor: number
  rounds: { reference: Side; service: Side }[]
  /** The median of the rounds' ratios: a slow moment of the machine slows both sides of a round. */
  ratio: number
  /** The same of CPU time per request or row. */
  cpuRatio: number
  /** The least and the greatest ratio of one round. */
  ratios: [least: number, greatest: number]
  memory: Memory
}

export interface Skipped {
  name: string
  title: string
  skipped: string
}

export type Row = Measured | Skipped

type Taken = Omit<Measured, 'ratio' | 'cpuRatio' | 'ratios'>

/** A row with what follows from its rounds. */
export function withRatio(taken: Taken): Measured {
  const ratios = taken.rounds.map(({ reference, service }) => service.perSecond / reference.perSecond)
  const cpuRatios = taken.rounds.map(({ reference, service }) => Number(reference.serverUs) / Number(service.serverUs))
  const [ratio, cpuRatio] = [median(ratios), median(cpuRatios)]
  return { ...taken, ratio, cpuRatio, ratios: [Math.min(...ratios), Math.max(...ratios)] }
}

/** The median over the rounds of one figure of one side. */
export function medianOf({ rounds }: Pick<Measured, 'rounds'>, side: 'reference' | 'service', figure = 'perSecond') {
  return median(rounds.map((round) => Number(round[side][figure])))
}

function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] as number
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}
