import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { builtIn } from '../../src/catalog/service.ts'
import type { Definition } from '../../src/definition/service.ts'
import { folderResults } from '../../src/files/folder.ts'
import { noJobs } from '../../src/jobs/served-jobs.ts'
import { reportKinds } from '../../src/mount-versions.ts'
import { openQueue } from '../../src/queue/open.ts'
import type { Queue } from '../../src/queue/queue.ts'
import { reportThreads } from '../../src/reports/generate/report-threads.ts'
import { rowAccess } from '../../src/row-access.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { migrate } from '../../src/storage/migrate.ts'
import type { Swept } from '../../src/storage/sweep.ts'
import { sender } from '../../src/webhooks/dispatch/http-client.ts'
import { defaultEndpointLimits } from '../../src/webhooks/queue/endpoint-queue.ts'
import { webhookKeys } from '../../src/webhooks/secrets.ts'
import { startWork } from '../../src/worker.ts'
import { type TestApp, testApp } from './app.ts'
import type { EngineUnderTest } from './engines.ts'
import { eventually } from './service.ts'

/** A call as seen by the receiver. */
export interface Call {
  headers: IncomingHttpHeaders
  bytes: Buffer
}

export interface Receiver {
  calls: Call[]
  url: string
  /** Returns the response status for the n-th call; 204 by default. */
  status: (n: number) => number
  /** Resolves once this many calls have arrived. */
  called: (count: number) => Promise<void>
}

/** Returns whether one of the signatures equals the one that `standardwebhooks` creates with this secret. */
export function isSigned(secret: string, { bytes, headers }: Call): boolean {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  const signed = new Webhook(secret).sign(String(id), new Date(Number(timestamp) * 1_000), bytes)
  return String(signatures).split(' ').includes(signed)
}

export interface Hooks extends TestApp {
  db: Database
  queue: Queue
  /** Starts a receiver, which is closed at the end of the suite. */
  receiver: () => Promise<Receiver>
  /** How far the clock of the worker and the app is ahead of real time, in ms. */
  ahead: { ms: number }
  /** The results of all sweeps, in order. */
  swept: Swept[]
}

/** Builds the app with a background worker that sends real HTTP calls. Both are ready before the suite's first test. */
export function hooksOn(
  engine: EngineUnderTest,
  schedule: readonly number[] = [0, 0.01],
  definition: Definition = builtIn,
): Hooks {
  const service = { ahead: { ms: 0 }, swept: [] as Swept[] } as Hooks
  const closers: (() => unknown)[] = []
  const faults: unknown[] = []
  service.receiver = () => receiver((close) => closers.push(close))
  before(async () => {
    const db = await engine.database()
    await migrate(db, { tables: definition.tables })
    const seal = sealer(Buffer.alloc(32, 1), randomBytes)
    const now = () => Date.now() + service.ahead.ms
    const onError = (error: unknown) => faults.push(error)
    // The queue uses the real clock, whatever `ahead` is.
    const queue = await openQueue({ db, now: Date.now, random: Math.random, onError })
    const policy = { allowHttp: true, allowCidrs: ['127.0.0.0/8'] }
    const made = sender({ policy, timeoutMs: 2_000, now: Date.now })
    const folder = mkdtempSync(join(tmpdir(), 'plinth-hooks-'))
    const results = folderResults(folder)
    const produce = reportThreads({ databaseUrl: db.url, resultsUrl: `file:${folder}` }).produce
    const stop = startWork({
      ...{ db, queue, results, produce, now, monotonic: () => performance.now(), onError, schedule, sealer: seal },
      ...{
        sender: made,
        lanes: defaultEndpointLimits,
        callMs: 2_000,
        kinds: reportKinds(definition),
        ...rowAccess(definition, { db, now }),
        pdfFont: null,
        resultSeconds: 60,
        taskSeconds: 60,
        jobSeconds: 60,
        declaredJobs: { jobs: noJobs, redact: (text) => text, onFailed: onError },
        auditMonths: null,
        streams: { historySeconds: 3_600 },
        version: '1.2.3',
        maxWaiting: 100_000,
        onRecorded: () => {},
        onDisabled: () => {},
        onSwept: (swept) => service.swept.push(swept),
        onDropped: () => {},
      },
      ...{ webhookKeys: await webhookKeys(db, seal), random: randomBytes, jitter: () => 0.5 },
    })
    const app = await testApp(db, { definition, queue, results, now, sealer: seal })
    Object.assign(service, app, { db, queue })
    // Close receivers last, because calls to them may be in flight.
    closers.unshift(
      () => stop(),
      // This also closes the queue.
      () => app.app.close(),
      () => made.close(),
      () => db.close(),
      () => rmSync(folder, { recursive: true }),
    )
  })
  after(async () => {
    const unexpected = [...faults, ...service.faults]
    for (const close of closers) await close()
    assert.deepEqual(unexpected, [])
  })
  return service
}

async function receiver(onClose: (close: () => unknown) => void): Promise<Receiver> {
  const made: Receiver = {
    ...{ calls: [], url: '', status: () => 204 },
    called: async (count) => void (await eventually(`${count} calls`, async () => made.calls.length >= count, 10_000)),
  }
  const server = createServer(async (request, response) => {
    made.calls.push({ headers: request.headers, bytes: Buffer.concat(await request.toArray()) })
    response.writeHead(made.status(made.calls.length)).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onClose(() => {
    server.close()
    server.closeAllConnections()
  })
  made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  return made
}
