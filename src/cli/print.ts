import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../config/config.ts'
import { describeSettings } from '../config/describe.ts'
import type { Stores } from '../stores.ts'

/** Prints a line to standard output. */
export const print = (text: string): void => void process.stdout.write(`${text}\n`)

/** Prints indented JSON. */
export const printJson = (value: unknown): void => print(JSON.stringify(value, null, 2))

/**
 * Runs a command that accesses the database directly, even while a service runs: opens the stores, and closes them
 * afterwards.
 */
export const withStores =
  (configuration: () => Config) =>
  async (work: (stores: Stores) => Promise<void>): Promise<void> => {
    // Loaded on demand, because help and the client commands need no database.
    const { openStores } = await import('../stores.ts')
    const stores = await openStores(configuration())
    await work(stores).finally(() => stores.db.close())
  }

/** Parses a list separated by spaces or commas. */
export const parseList = (text: string): string[] => text.split(/[\s,]+/).filter((part) => part !== '')

/** Parses the values of an option such as `--label tenant=north`. Throws if a value is not a pair. */
export function parsePairs(option: string, texts: readonly string[]): Record<string, string> {
  const pairs = texts.map((text) => {
    const at = text.indexOf('=')
    if (at < 1) throw new Error(`${option} must be a name and a value, such as tenant=north, not ${text}`)
    return [text.slice(0, at), text.slice(at + 1)]
  })
  return Object.fromEntries(pairs)
}

/** Formats all settings: name, effective value, description. Secrets are hidden. */
export function settingsTable(config: Config, env: Readonly<Record<string, string | undefined>>): string {
  const rows = describeSettings(config, env)
  const width = Math.max(...rows.map(({ name }) => name.length))
  return rows
    .map(({ name, value, about }) => `${name.padEnd(width)}  ${about}\n${' '.repeat(width)}  = ${value}\n`)
    .join('')
}

/** Formats rows as lines with aligned columns. */
export function aligned(rows: readonly string[][]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** Reads one line: from a terminal, with a prompt and without echo, or from a pipe. */
export async function readSecret(prompt: string): Promise<string> {
  const { stdin, stderr } = process
  if (stdin.isTTY) stderr.write(prompt)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: silent, terminal: stdin.isTTY })
  try {
    for await (const line of lines) return line
    return ''
  } finally {
    lines.close()
    if (stdin.isTTY) stderr.write('\n')
  }
}

/** Adds the options of commands that call a service as a client. */
export const asClient = (command: Command): Command =>
  command
    .option('--base-url <url>', 'URL of the service (default: the one in these settings)', address)
    .option('--client-id <id>', 'the client to authenticate as (default: PLINTH_CLIENT_ID)')
    .option('--client-secret <secret>', 'its secret; prefer PLINTH_CLIENT_SECRET, which other users cannot see')

function address(text: string): string {
  const url = URL.parse(text)
  if (url && /^https?:$/.test(url.protocol)) return text
  throw new InvalidArgumentError('It must be a URL such as https://api.example.com.')
}
