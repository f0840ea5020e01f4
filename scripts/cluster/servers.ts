import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import pg from 'pg'
import { freePort } from '../../src/serving/listeners.ts'
import { asPostgres, giveToPostgres, postgresProgram } from '../../test/support/postgres-programs.ts'
import type { Program, Programs } from './processes.ts'
import { accepts } from './proxies.ts'

const host = '127.0.0.1'
const succeeds = (work: Promise<unknown>) =>
  work.then(
    () => true,
    () => false,
  )

const isInstalled = (program: string, ...args: string[]) => spawnSync(program, args).status === 0

/** Starts a new PostgreSQL server with the default durability settings, and creates an empty database on it. */
export async function startPostgres(programs: Programs): Promise<{ program: Program; url: string }> {
  const data = join(programs.folder, 'postgres')
  mkdirSync(data)
  giveToPostgres(data)
  const options = ['-D', data, '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale=C']
  const [initdb, ...args] = asPostgres(postgresProgram('initdb'), ...options)
  execFileSync(initdb, args, { cwd: programs.folder, stdio: 'ignore' })
  const port = await freePort()
  const settings = [
    `listen_addresses=${host}`,
    'unix_socket_directories=',
    'max_connections=200',
    'log_min_messages=warning',
  ]
  const url = (database: string) => `postgres://postgres@${host}:${port}/${database}`
  const program = programs.add({
    name: 'postgres',
    command: () => [
      ...asPostgres(postgresProgram('postgres'), '-D', data, '-p', String(port)),
      ...settings.flatMap((setting) => ['-c', setting]),
    ],
    env: process.env,
    isReady: () => succeeds(query(url('postgres'), 'select 1')),
  })
  await program.start()
  await query(url('postgres'), 'create database plinth')
  return { program, url: url('plinth') }
}

async function query(connectionString: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/** Starts a Redis server without persistence. */
export async function startRedis(programs: Programs): Promise<{ program: Program; url: string }> {
  const port = await freePort()
  const settings = [
    '--port',
    String(port),
    '--bind',
    host,
    '--save',
    '',
    '--appendonly',
    'no',
    '--dir',
    programs.folder,
  ]
  const program = programs.add({
    name: 'redis',
    command: () => ['redis-server', ...settings],
    env: process.env,
    isReady: () => accepts(port),
  })
  await program.start()
  return { program, url: `redis://${host}:${port}` }
}

/** Where report files are stored; `program` is null if they are stored in a folder. */
export interface Results {
  program: Program | null
  env: Record<string, string>
}

/** Starts versitygw with an empty bucket. If it is not installed, returns a folder that all nodes share. */
export async function startResults(programs: Programs): Promise<Results> {
  const files = join(programs.folder, 'results')
  mkdirSync(files, { mode: 0o700 })
  if (!isInstalled('versitygw', '--version')) return { program: null, env: { PLINTH_RESULTS_URL: `file:${files}` } }
  const port = await freePort()
  const [accessKeyId, secretAccessKey] = ['cluster', randomBytes(16).toString('hex')]
  const endpoint = `http://${host}:${port}`
  const client = new S3Client({
    ...{ endpoint, region: 'us-east-1', forcePathStyle: true, maxAttempts: 1 },
    credentials: { accessKeyId, secretAccessKey },
  })
  const program = programs.add({
    name: 's3',
    command: () => ['versitygw', '--port', `${host}:${port}`, '--quiet', 'posix', files],
    env: { ...process.env, ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey },
    isReady: () => succeeds(client.send(new CreateBucketCommand({ Bucket: 'plinth' }))),
  })
  await program.start()
  client.destroy()
  const credentials = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }
  return {
    program,
    env: {
      PLINTH_RESULTS_URL: 's3://plinth/reports',
      AWS_ENDPOINT_URL: endpoint,
      AWS_REGION: 'us-east-1',
      ...credentials,
    },
  }
}
