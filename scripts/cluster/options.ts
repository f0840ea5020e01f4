import { parseArgs } from 'node:util'

export const usage = `Starts a cluster as plain processes on this machine: PostgreSQL, Redis, an S3 server, nodes, and nginx with TLS in front.
With --duration, also sends requests, keeps a ledger of what the cluster accepted, and checks at the end that nothing is lost.

  node scripts/cluster.ts [options]

  --nodes N             number of nodes (3)
  --split               the last node has the role worker, the others api and auth
  --duration TIME       duration of the load, such as 90s or 5m; without it the cluster runs until Ctrl-C
  --rate N              requests per second (20)
  --kill-every TIME     kills a node with SIGKILL at this interval
  --restart-postgres N  restarts PostgreSQL N times: fast, then without a clean shutdown, and so on (0)
  --upgrade-from [REF]  starts the nodes from this tag or commit (the newest tag), and replaces them one by one by nodes
                        of this checkout during the load
  --seed N              seed of the random numbers (the time)
  --keep                keep the folder with the logs and the ledger, also after a success
  --help                print this text

With --duration, the exit code is 0 if every check passes and 1 otherwise. PostgreSQL, redis-server and nginx must be installed;
without versitygw, a folder takes the place of the S3 server.
`

export interface ClusterOptions {
  nodes: number
  split: boolean
  /** The duration of the run; null to run until Ctrl-C. */
  durationMs: number | null
  perSecond: number
  /** The interval between two kills; null to kill no node. */
  killEveryMs: number | null
  postgresRestarts: number
  /** The tag or commit to upgrade from: an empty text means the newest tag, and null means no upgrade. */
  upgradeFrom: string | null
  seed: number
  keep: boolean
}

/** Reads the command line; returns null for --help. Throws an Error that names the wrong option. */
export function readOptions(args: string[]): ClusterOptions | null {
  const { values } = parseArgs({
    args: args.map(withValue),
    options: {
      nodes: { type: 'string', default: '3' },
      split: { type: 'boolean', default: false },
      duration: { type: 'string' },
      rate: { type: 'string', default: '20' },
      'kill-every': { type: 'string' },
      'restart-postgres': { type: 'string', default: '0' },
      'upgrade-from': { type: 'string' },
      seed: { type: 'string', default: String(Date.now() % 100_000) },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return null
  const options = {
    nodes: whole('nodes', values.nodes, 1),
    split: values.split,
    durationMs: values.duration === undefined ? null : parseDuration('duration', values.duration),
    perSecond: whole('rate', values.rate, 1),
    killEveryMs: values['kill-every'] === undefined ? null : parseDuration('kill-every', values['kill-every']),
    postgresRestarts: whole('restart-postgres', values['restart-postgres'], 0),
    upgradeFrom: values['upgrade-from'] ?? null,
    seed: whole('seed', values.seed, 0),
    keep: values.keep,
  }
  refuseContradictions(options)
  return options
}

/** Adds an empty value to `--upgrade-from` if it has no value. */
const withValue = (argument: string, at: number, all: string[]) =>
  argument === '--upgrade-from' && (all[at + 1] ?? '--').startsWith('--') ? '--upgrade-from=' : argument

function refuseContradictions(options: ClusterOptions): void {
  const { nodes, split, durationMs, killEveryMs, postgresRestarts, upgradeFrom } = options
  const hasFaults = killEveryMs !== null || postgresRestarts > 0
  if (split && nodes < 2) throw new Error('--split: expected --nodes 2 or more')
  if (durationMs === null && (hasFaults || upgradeFrom !== null)) {
    throw new Error('--kill-every, --restart-postgres and --upgrade-from: expected --duration')
  }
  if (hasFaults && upgradeFrom !== null) {
    throw new Error('--upgrade-from: expected neither --kill-every nor --restart-postgres, because no request may fail')
  }
}

function whole(name: string, text: string, min: number): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < min) {
    throw new Error(`--${name} ${text}: expected a whole number of at least ${min}`)
  }
  return value
}

function parseDuration(name: string, text: string): number {
  const [, count, unit] = /^(\d+)(s|m)$/.exec(text) ?? []
  const ms = Number(count) * (unit === 'm' ? 60_000 : 1_000)
  if (!(ms > 0)) throw new Error(`--${name} ${text}: expected seconds or minutes, such as 90s or 5m`)
  return ms
}
