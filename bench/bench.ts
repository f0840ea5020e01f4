import { parseArgs } from 'node:util'
import type { Memory } from './cpu-and-memory.ts'
import type { Target } from './http.ts'
import type { Row } from './results.ts'
import type { Sandbox } from './sandbox.ts'
import type { Service } from './service.ts'

/** Context shared by all measurements. */
export interface Bench {
  options: Options
  sandbox: Sandbox
  /** Whether processes are pinned to cores. */
  pin: boolean
  service: Service
  /** The reference server, usually Fastify without plugins. */
  reference: Target
  /** Whether wrk sends the requests; otherwise, `load.ts` does. */
  useWrk?: boolean
  /** The service's memory use right after startup. */
  start: Memory
  /** Prints a progress line. */
  say: (line: string) => void
}

/** One row of the results table or several, and the function that measures them. */
export interface Measurement {
  name: string
  /** Whether the row is only measured if `--only` selects it. */
  isOptional?: boolean
  measure: (bench: Bench) => Promise<Row | Row[]>
}

/** The command-line options. */
export interface Options {
  rounds: number
  seconds: number
  connections: number
  /** Number of products in the database and of rows in each report. */
  rows: number
  /** The only table row to measure; null to measure all. */
  only: string | null
  tls: boolean
  /** Output file for the results; null for bench/results/<date>.json. */
  json: string | null
  /** Whether a run fails if a ratio is below its floor or the service uses too much memory. */
  check: boolean
  /** Whether to write CPU profiles of the service and the reference; profiling slows both down slightly. */
  profile: boolean
}

export const usage = `Measures the service relative to a reference on the same core: every figure is a ratio of two rates in one run.

  npm run bench -- [options]

  --rounds N        rounds, each of reference and service; the median of their ratios counts (7)
  --seconds N       duration of one measurement (2)
  --connections N   keep-alive connections of the load generator (32)
  --rows N          products in the database, and rows of the report (1000000)
  --only NAME       only this row, or else all rows whose names start with NAME and a hyphen: get, get-random,
                    not-modified, list-20, list-50, list-100, token, remembered-token, report, report-postgres,
                    report-ndjson, report-xlsx, webhooks, list-rule, list-expand, mixed, mixed-create, create, create-hook,
                    streams, streams-matching, get-counted, not-modified-counted, greedy, overload, background,
                    threads-get-random, threads-mixed, threads-create or start; also peer-fastify-sqlite, peer-nest
                    (after npm ci --prefix bench/peers) and peer-pocketbase (with POCKETBASE=<path of the program>),
                    which are not measured otherwise
  --tls             HTTPS for both instead of plain HTTP behind a proxy
  --json FILE       file for the figures (bench/results/<date>.json)
  --check           exit with 1 if a ratio is below its floor
  --profile         run both with --cpu-prof and write the profiles to bench/results/{service,reference}
  --help            print this text
`

/** Parses the command line; returns null for --help. Throws on unknown or invalid options. */
export function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string', default: '7' },
      seconds: { type: 'string', default: '2' },
      connections: { type: 'string', default: '32' },
      rows: { type: 'string', default: '1000000' },
      only: { type: 'string' },
      tls: { type: 'boolean', default: false },
      json: { type: 'string' },
      check: { type: 'boolean', default: false },
      profile: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return null
  const { only = null, json = null, tls, check, profile } = values
  return {
    rounds: positive('rounds', values.rounds),
    seconds: positive('seconds', values.seconds),
    connections: positive('connections', values.connections),
    rows: positive('rows', values.rows),
    ...{ only, json, tls, check, profile },
  }
}

function positive(name: string, text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1)
    throw new Error(`--${name} ${text}: expected a whole number, 1 or more`)
  return value
}
