import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../src/serving/listeners.ts'
import { asPostgres, giveToPostgres, hasPostgresPrograms, postgresProgram } from './postgres-programs.ts'

const run = promisify(execFile)

/** The reason to skip tests that need their own PostgreSQL server, or false if its programs are installed. */
export const clusterMissing: string | false = hasPostgresPrograms ? false : 'initdb is not installed'

/** A PostgreSQL server with its own data folder; a test can start, crash and promote it. */
export interface PostgresServer {
  port: number
  folder: string
  start: () => Promise<void>
  /** Stops the server as a crash would: without a checkpoint, and without waiting for clients. */
  crash: () => Promise<void>
  /** Makes a standby accept writes. */
  promote: () => Promise<void>
  remove: () => Promise<void>
}

/** Returns the URL of a database on a server, or on a proxy in front of it. */
export const urlAt = (port: number, database = 'postgres') => `postgres://postgres@127.0.0.1:${port}/${database}`

const settings = ['fsync=off', 'max_connections=200', 'shared_buffers=16MB', 'listen_addresses=127.0.0.1']

/** Creates an empty server and starts it. */
export async function postgresServer(): Promise<PostgresServer> {
  const server = await serverIn(newFolder())
  await program('initdb', ['-D', server.folder, '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale=C', '-N'])
  await server.start()
  return server
}

/** Creates a standby by streaming replication, and starts it. Its `application_name` is `standby`. */
export async function standbyOf({ port }: Pick<PostgresServer, 'port'>): Promise<PostgresServer> {
  const server = await serverIn(newFolder())
  const from = `host=127.0.0.1 port=${port} user=postgres application_name=standby`
  await program('pg_basebackup', ['-D', server.folder, '-d', from, '-R', '-X', 'stream', '--checkpoint=fast'])
  await server.start()
  return server
}

async function serverIn(root: string): Promise<PostgresServer> {
  const [folder, log, port] = [join(root, 'data'), join(root, 'log'), await freePort()]
  const control = (...args: string[]) =>
    program('pg_ctl', ['-D', folder, ...args]).catch((error) => {
      throw new Error(`pg_ctl ${args.join(' ')} failed: ${readFileSync(log, 'utf8').slice(-2_000)}`, { cause: error })
    })
  const options = [`-p ${port}`, `-k ${root}`, ...settings.map((setting) => `-c ${setting}`)].join(' ')
  const crash = () => control('-m', 'immediate', 'stop')
  return {
    ...{ port, folder, crash },
    start: () => control('-w', '-l', log, '-o', options, 'start'),
    promote: () => control('-w', 'promote'),
    remove: async () => {
      await crash().catch(() => {})
      rmSync(root, { recursive: true, force: true })
    },
  }
}

async function program(name: string, options: string[]): Promise<void> {
  const [command, ...args] = asPostgres(postgresProgram(name), ...options)
  await run(command, args, { cwd: tmpdir() })
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-postgres-'))
  giveToPostgres(folder)
  return folder
}
