import { fork, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expectResponse, type HttpRequest } from '../../bench/http.ts'
import type { Sandbox } from '../../bench/sandbox.ts'
import { client, type Service, startService } from '../../bench/service.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { firstRevision } from '../../src/storage/rows/revision.ts'
import { withoutLimits } from '../../test/support/limits.ts'
import type { AbuseOrder, Scenario } from './order.ts'
import { type Observation, startSecondClient } from './second-client.ts'

/** A database filled by `fill-large.ts`, and the client that owns its tasks and its webhook. */
export interface Filled {
  databaseUrl: string
  /** The key that encrypts the secrets in the database. */
  masterKey: string
  clientId: string
  clientSecret: string
  webhookId: string
}

export interface IsolationOptions {
  filled: Filled
  scenarios: readonly Scenario[]
  /** Duration of each scenario. */
  seconds: number
  /** Fraction of the full number of endpoints, streams, downloads and connections that the abusive client uses. */
  scale: number
  /** Additional settings for the service, such as an S3 server for report results. */
  settings?: Record<string, string>
  say: (line: string) => void
}

export interface IsolationResult {
  scenario: Scenario | 'idle'
  observation: Observation
  /** Number of responses or errors that the abusive client received, by status or error. */
  abuse: Record<string, number>
}

const products = 100
const owners = 4
const fillProgram = join(import.meta.dirname, '../fill-large.ts')

/** Fills an empty database, `file:…` or `postgres://…`; the row counts are arguments to `fill-large.ts`. */
export function fillLarge(databaseUrl: string, dataDir: string, fillArguments: readonly string[]): Filled {
  const masterKey = randomBytes(32).toString('base64')
  const command = [fillProgram, '--database', databaseUrl, '--data-dir', dataDir, ...fillArguments]
  const env = { ...process.env, PLINTH_MASTER_KEY: masterKey }
  const { status, stdout } = spawnSync(process.execPath, command, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  if (status !== 0) throw new Error(`fill-large.ts exited with ${status}`)
  return { databaseUrl, masterKey, ...(JSON.parse(stdout.toString()) as Omit<Filled, 'databaseUrl' | 'masterKey'>) }
}

/**
 * Starts a service on a filled database. Returns what the second client observed, first while nobody else was active
 * and then in each scenario.
 */
export async function isolationRun(sandbox: Sandbox, options: IsolationOptions): Promise<IsolationResult[]> {
  const { filled, scenarios, settings = {}, say } = options
  const local = { PLINTH_WEBHOOK_ALLOW_HTTP: 'true', PLINTH_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8' }
  const service = await startService(sandbox, { tls: true } as Parameters<typeof startService>[1], false, {
    limits: { ...withoutLimits, ...local, ...settings, PLINTH_MASTER_KEY: filled.masterKey },
    database: { url: filled.databaseUrl, fill: () => {} },
  })
  const prepared = await prepare(service, filled)
  const results: IsolationResult[] = []
  for (const scenario of ['idle', ...scenarios] as const) {
    const result = await observe(service, scenario, prepared, options)
    say(lineOf(result))
    results.push(result)
  }
  await service.stop()
  return results
}

/** Formats one line: what the second client observed, and the responses to the abusive client. */
export function lineOf({ scenario, observation, abuse }: IsolationResult): string {
  const { reads, p50Ms, p99Ms, slowestMs, cut, deliveries, slowestDeliveryMs, undelivered, failures } = observation
  const downloaded = `${observation.downloads} downloads, slowest ${observation.slowestDownloadMs.toFixed(0)} ms`
  const read = `${reads} reads: p50 ${p50Ms.toFixed(1)}, p99 ${p99Ms.toFixed(1)}, slowest ${slowestMs.toFixed(0)} ms`
  const delivered = `${deliveries} deliveries, slowest ${slowestDeliveryMs.toFixed(0)} ms, ${undelivered} missing`
  const responses = Object.entries(abuse).map(([outcome, times]) => `${outcome}×${times}`)
  return [`${scenario.padEnd(15)} ${read}; ${delivered}; ${downloaded}; ${cut} cut`, ...failures, responses.join(' ')]
    .filter(Boolean)
    .join('; ')
}

interface Prepared {
  order: Omit<AbuseOrder, 'scenario' | 'scale'>
  second: { token: string; taskId: string; reportId: string }
}

/** Registers the clients, and creates the data that the abuse needs: a large report and tasks that never end. */
async function prepare(
  service: Service,
  { databaseUrl, clientId, clientSecret, webhookId }: Filled,
): Promise<Prepared> {
  const administrator = await tokenOf(service, client.id, client.secret)
  const token = await tokenOf(service, clientId, clientSecret)
  const second = await newClient(service, administrator)
  const ownerTokens: string[] = []
  for (let n = 0; n < owners; n++) ownerTokens.push((await newClient(service, administrator)).token)
  await addProducts(service, token)
  const tasks = {
    reportId: await completedReport(service, token, 'users'),
    endlessTaskId: await endlessTask(databaseUrl, clientId),
  }
  return {
    order: { port: service.port, token, ownerTokens, webhookId, ...tasks },
    second: {
      ...{ token: second.token, taskId: await endlessTask(databaseUrl, second.id) },
      reportId: await completedReport(service, second.token, 'inventory'),
    },
  }
}

const json = 'application/json'
const bearer = (token: string) => ({ authorization: `Bearer ${token}`, 'content-type': json, accept: json })
const resultOf = async <T>(service: Service, expected: number, request: HttpRequest): Promise<T> =>
  JSON.parse((await expectResponse(service, expected, request)).body) as T

async function tokenOf(service: Service, id: string, secret: string): Promise<string> {
  const credentials = Buffer.from(`${id}:${secret}`).toString('base64')
  const headers = { authorization: `Basic ${credentials}`, 'content-type': 'application/x-www-form-urlencoded' }
  const request = { method: 'POST', path: '/oauth/token', headers, body: 'grant_type=client_credentials' }
  return (await resultOf<{ access_token: string }>(service, 200, request)).access_token
}

async function newClient(service: Service, token: string): Promise<{ id: string; token: string }> {
  const scopes = ['products:write', 'books:write', 'users:read', 'reports:read', 'reports:write']
  const settings = {
    ...{ name: 'A client', grants: ['client_credentials'] },
    scopes: [...scopes, 'webhooks:read', 'webhooks:write'],
  }
  const request = { method: 'POST', path: '/api/clients', headers: bearer(token), body: JSON.stringify(settings) }
  const created = await resultOf<{ id: string; secret: string }>(service, 201, request)
  return { id: created.id, token: await tokenOf(service, created.id, created.secret) }
}

async function addProducts(service: Service, token: string): Promise<void> {
  for (let n = 0; n < products; n++) {
    const body = JSON.stringify({ name: `Product ${n}`, price: n })
    await expectResponse(service, 201, { method: 'POST', path: '/products', headers: bearer(token), body })
  }
}

async function completedReport(service: Service, token: string, reportType: string): Promise<string> {
  const body = JSON.stringify({ reportType, format: 'ndjson' })
  const request = { method: 'POST', path: '/api/reports', headers: bearer(token), body }
  const { taskId } = await resultOf<{ taskId: string }>(service, 202, request)
  for (;;) {
    const look = { method: 'GET', path: `/api/reports/${taskId}/status`, headers: bearer(token) }
    const { status } = await resultOf<{ status: string }>(service, 200, look)
    if (status === 'completed') return taskId
    if (status === 'failed') throw new Error(`The report ${reportType} failed`)
    await sleep(200)
  }
}

/** Inserts a task that is in progress but has no worker. */
async function endlessTask(databaseUrl: string, ownerClient: string): Promise<string> {
  const id = `tsk_${randomBytes(16).toString('base64url')}`
  const at = new Date().toISOString()
  const db = await openDatabase(databaseUrl)
  const kind = { reportType: 'users', format: 'csv', parameters: null, webhookUrl: null, versionPrefix: '' }
  const state = { status: 'in_progress', progress: 1, attempts: 1, startedAt: at } as const
  const owner = { ownerClient, ownerSubject: ownerClient }
  const task = { id, ...kind, ...state, ...owner, ...firstRevision(at) }
  await db.write((tx) => tx.insertInto('tasks').values(task).execute()).finally(db.close)
  return id
}

async function observe(
  service: Service,
  scenario: IsolationResult['scenario'],
  { order, second: prepared }: Prepared,
  { seconds, scale }: IsolationOptions,
): Promise<IsolationResult> {
  const abuse = scenario === 'idle' ? null : await startAbuse({ ...order, scenario, scale })
  try {
    const second = await startSecondClient({ port: service.port, ...prepared, products })
    await sleep(seconds * 1_000)
    const observation = await second.stop()
    return { scenario, observation, abuse: (await abuse?.stop()) ?? {} }
  } finally {
    abuse?.kill()
  }
}

async function startAbuse(order: AbuseOrder) {
  const child = fork(join(import.meta.dirname, 'abuse.ts'), [JSON.stringify(order)])
  const ended = new AbortController()
  child.once('exit', () => ended.abort(new Error(`The abusive client exited early in ${order.scenario}`)))
  const next = async () => (await once(child, 'message', { signal: ended.signal }))[0] as Record<string, number>
  await next()
  return {
    stop: () => {
      const statuses = next()
      child.send('stop')
      return statuses
    },
    kill: () => child.kill('SIGKILL'),
  }
}
