import { spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { BackupRefused } from '../errors.ts'

/** A PostgreSQL client program, and its major release. */
export interface Tool {
  path: string
  major: number
}

/** Where Debian and its derivatives install the programs of each release. */
const installed = '/usr/lib/postgresql/*/bin'

/**
 * Finds a `pg_dump` or `pg_restore` of this major release or a later one, either in PATH or where Debian installs them.
 * Throws `BackupRefused` if there is none.
 */
export async function findTool(name: 'pg_dump' | 'pg_restore', minMajor: number): Promise<Tool> {
  const found: Tool[] = []
  for (const path of [name, ...globSync(`${installed}/${name}`)]) {
    const major = await majorOf(path)
    if (major !== undefined && major >= minMajor) return { path, major }
    if (major !== undefined) found.push({ path, major })
  }
  const have = found.map(({ path, major }) => `${path} is of release ${major}`).join(', ') || 'there is none in PATH'
  throw new BackupRefused(
    `${name} of PostgreSQL ${minMajor} or later is required; ${have}: install the package postgresql-client-${minMajor}`,
  )
}

async function majorOf(path: string): Promise<number | undefined> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const child = spawn(path, ['--version'], { stdio: ['ignore', 'pipe', 'ignore'] })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk) => (text += chunk))
  child.on('error', () => resolve(''))
  child.on('close', () => resolve(text))
  const [, major] = /\(PostgreSQL\) (\d+)/.exec(await promise) ?? []
  return major === undefined ? undefined : Number(major)
}

export interface ToolOptions {
  /**
   * Environment variables for connection parameters. They are not passed as arguments, because any user of the machine
   * can list the arguments of a process.
   */
  env: Readonly<Record<string, string>>
  signal: AbortSignal
}

/**
 * Runs a program and returns its output. If the program fails, rejects with the text that it wrote to standard error.
 */
export async function runTool(tool: Tool, args: readonly string[], { env, signal }: ToolOptions): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const stdio = ['ignore', 'pipe', 'pipe'] as const
  const child = spawn(tool.path, args, { env: { ...process.env, ...env }, signal, stdio: [...stdio] })
  let [output, errors] = ['', '']
  child.stdout?.setEncoding('utf8').on('data', (text) => (output += text))
  child.stderr?.setEncoding('utf8').on('data', (text) => (errors += text))
  child.on('error', reject)
  child.on('close', (code) => {
    if (code === 0) resolve(output)
    else reject(new Error(`${tool.path} failed: ${errors.trim() || `exit code ${code}`}`))
  })
  return promise
}

/** Maps the parameters of a `postgres://` URL to libpq's environment variables. */
const variables: Readonly<Record<string, string>> = {
  host: 'PGHOST',
  port: 'PGPORT',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  dbname: 'PGDATABASE',
  options: 'PGOPTIONS',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  sslrootcert: 'PGSSLROOTCERT',
}

/** Returns environment variables with which PostgreSQL's programs connect to the same database as this service. */
export function connectionEnv(url: string): Record<string, string> {
  const { username, password, hostname, port, pathname, searchParams } = new URL(url)
  const decode = decodeURIComponent
  const parts: Record<string, string> = {
    ...{ user: decode(username), password: decode(password), host: decode(hostname).replace(/^\[(.*)\]$/, '$1') },
    ...{ port, dbname: decode(pathname.slice(1)) },
    ...Object.fromEntries(searchParams),
  }
  const env: Record<string, string> = { PGAPPNAME: 'plinth-backup', PGCONNECT_TIMEOUT: '10' }
  for (const [name, variable] of Object.entries(variables)) if (parts[name]) env[variable] = parts[name]
  return { ...env, ...encryptionEnv(parts) }
}

/**
 * The service verifies certificates and host names in each of these modes, whereas libpq does so only in `verify-full`.
 * For `sslrootcert`, libpq 16 and later accept `system`, which stands for the authorities that the machine trusts.
 */
const verifying = ['prefer', 'require', 'verify-ca', 'verify-full']

function encryptionEnv({ ssl, sslrootcert, uselibpqcompat, ...parts }: Record<string, string>): Record<string, string> {
  const sslmode = parts.sslmode ?? (ssl === 'true' ? 'verify-full' : undefined)
  if (sslmode === undefined) return {}
  if (sslmode === 'no-verify') return { PGSSLMODE: 'require' }
  if (uselibpqcompat === 'true' || !verifying.includes(sslmode)) return { PGSSLMODE: sslmode }
  return { PGSSLMODE: 'verify-full', PGSSLROOTCERT: sslrootcert ?? 'system' }
}
