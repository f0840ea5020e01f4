import type { Row } from './measured.ts'
import type { Memory } from './memory.ts'
import type { Options } from './options.ts'
import type { Service } from './service.ts'
import type { Target } from './target.ts'
import type { Workplace } from './workplace.ts'

/** What the measurement of a row works with. */
export interface Bench {
  options: Options
  place: Workplace
  pin: boolean
  service: Service
  reference: Target
  /** Memory of the service right after its start. */
  start: Memory
  /** Shows a line of progress. */
  say: (line: string) => void
}

/** A row of the table and how to measure it. */
export interface Measurement {
  name: string
  measure: (bench: Bench) => Promise<Row>
}
