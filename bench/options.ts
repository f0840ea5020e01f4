import { parseArgs } from 'node:util'

/** What a run measures and how long it takes. */
export interface Options {
  rounds: number
  seconds: number
  connections: number
  /** Products in the file before the start, and rows of the report. */
  rows: number
  /** The only row to measure; all without it. */
  only: string | null
  tls: boolean
  /** Where the figures go; bench/results/<date>.json without it. */
  json: string | null
  /** Whether a missed floor makes the run fail. */
  check: boolean
  /** Whether to leave CPU profiles of service and reference, which cost them some speed. */
  profile: boolean
}

export const usage = `Measures the service as a share of what the same core does without it: every figure is a ratio taken in one run.

  npm run bench -- [options]

  --rounds N        rounds of reference and service in turn; the median of their ratios counts (7)
  --seconds N       length of one measurement (2)
  --connections N   keep-alive connections of the load generator (32)
  --rows N          products in the database, and rows of the report (1000000)
  --only NAME       one row: get, get-random, not-modified, list, token, remembered-token, report,
                    report-postgres, report-ndjson, report-xlsx, webhooks, mixed, create, get-counted,
                    not-modified-counted, greedy or overload
  --tls             HTTPS for both, instead of plain HTTP behind a proxy
  --json FILE       where the figures go (bench/results/<date>.json)
  --check           exit with 1 when a floor is missed
  --profile         runs both under --cpu-prof and leaves the profiles in bench/results/{service,reference}
  --help            this text
`

/** The command line as options; null when the help was asked for. Throws on what it does not know. */
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
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`--${name} ${text}: expected a whole number from 1`)
  return value
}
