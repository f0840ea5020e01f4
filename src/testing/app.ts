import { randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildApp } from '../app.ts'
import { openAudit } from '../audit/buffer.ts'
import { checkSchedules, openCode } from '../code/run-jobs.ts'
import { readConfig } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import { storedDefinition } from '../definition/stored.ts'
import { eventShapes } from '../event-shapes.ts'
import { folderResults } from '../files/folder.ts'
import { later, monotonic, type OnClose, openAll } from '../lifecycle.ts'
import type { Log } from '../logging/entries.ts'
import { openMetrics } from '../metrics/metrics.ts'
import { reportKinds } from '../mount-versions.ts'
import { createUserParts } from '../oauth/users/users.ts'
import { openOperations } from '../operations/open.ts'
import { openQueue } from '../queue/open.ts'
import { reportThreads } from '../reports/generate/report-threads.ts'
import { rowAccess } from '../row-access.ts'
import { sealer } from '../storage/encryption.ts'
import { migrate } from '../storage/migrate.ts'
import { openDatabase } from '../storage/open.ts'
import { versionLifecycles } from '../version-lifecycle.ts'
import { defaultEndpointLimits } from '../webhooks/queue/endpoint-queue.ts'
import { webhookKeys } from '../webhooks/secrets.ts'
import { type StartedWork, startWork } from '../worker.ts'
import { background } from './background.ts'
import type { testCallers } from './callers.ts'
import type { Outbox } from './outbox.ts'

export interface TestAppOptions {
  definition: Definition
  now: () => number
  callers: ReturnType<typeof testCallers>
  outbox: Outbox
  /** The `fetch` function of jobs. */
  fetch: typeof globalThis.fetch
  /** Called with each error of the service; `requestId` is set if the error made a request fail. */
  onError: (error: unknown, requestId?: string) => void
}

const baseUrl = 'https://plinth.test'
const version = 'test'
const stopMs = 5_000
const monthSeconds = 2_592_000
/** Resolves no host names, because webhook calls are captured instead of sent. */
const lookup = async () => []

/** Opens the service in this process, on a new SQLite file, with its background work and without listeners. */
export const openTestApp = (options: TestAppOptions) => openAll((onClose) => open(options, onClose))

async function open(options: TestAppOptions, onClose: OnClose) {
  const wakes = new EventEmitter()
  const parts = await openTestParts(options, wakes, onClose)
  const app = await openHttp(parts, onClose)
  const work = background({ ...parts, ...startTestWork(parts, onClose), wakes })
  // Compute the first run of each schedule.
  await work.settle()
  return { app, ...parts, ...work }
}

/** Opens the parts that the HTTP service and the background work share, such as the database and the queue. */
async function openTestParts(options: TestAppOptions, wakes: EventEmitter, onClose: OnClose) {
  const { now, callers, onError } = options
  await checkSchedules(options.definition.code.schedules)
  const { folder, db } = await openTestDatabase(options.definition, onClose)
  const definition = await storedDefinition(db.read, options.definition)
  const seal = sealer(randomBytes(32), randomBytes)
  const queue = await openQueue({
    db,
    now,
    random: Math.random,
    onError: (error) => onError(error),
    wakes: shared(wakes),
  })
  const env = { PLINTH_DATA_DIR: folder }
  const config = readConfig(env)
  const lifecycles = versionLifecycles(definition, {})
  const metrics = openMetrics({ version, versions: lifecycles, monotonic, ofThread: null })
  const log: Log = { info: () => {}, warn: () => {}, error: (fields) => onError('err' in fields ? fields.err : fields) }
  const common = { ...options, db, queue, sealer: seal, random: randomBytes, monotonic, env, config, metrics, log }
  const access = rowAccess(definition, { db, now, givenClaims: callers.givenClaims })
  return {
    ...{ ...common, ...access, definition, lifecycles, folder, givenClaims: callers.givenClaims },
    ...openCode(definition, { ...common, ...access, thread: null, revocations: { count: 0 } }),
    ...{ results: folderResults(folder), kinds: reportKinds(definition), webhookKeys: await webhookKeys(db, seal) },
  }
}

/** Opens a new database in a temporary folder; closing the service removes the folder. */
async function openTestDatabase({ tables }: Definition, onClose: OnClose) {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-test-'))
  onClose(() => rmSync(folder, { recursive: true, force: true }))
  const db = await openDatabase(`file:${join(folder, 'plinth.db')}`)
  onClose(db.close)
  await migrate(db, { tables })
  return { folder, db }
}

const shared = (wakes: EventEmitter) => ({
  wake: () => void wakes.emit('wake'),
  onWake: (run: () => void) => {
    wakes.on('wake', run)
    return () => void wakes.off('wake', run)
  },
})

type Parts = Awaited<ReturnType<typeof openTestParts>>

function startTestWork(parts: Parts, onClose: OnClose): StartedWork {
  const { config, definition, lifecycles, folder, outbox, db, onError } = parts
  const started: StartedWork[] = []
  const reports = reportThreads({ databaseUrl: db.url, resultsUrl: `file:${folder}` })
  onClose(reports.close)
  const stop = startWork({
    ...parts,
    ...{ shapes: eventShapes(definition, lifecycles), sender: outbox.sender, version, jitter: () => 0.5 },
    ...{ produce: reports.produce, pdfFont: null },
    ...{ lanes: defaultEndpointLimits, callMs: stopMs, schedule: config.webhooks.schedule, maxWaiting: 100_000 },
    ...{ resultSeconds: monthSeconds, taskSeconds: monthSeconds, auditMonths: null },
    streams: config.streams,
    ...{ onRecorded: () => {}, onDisabled: () => {}, onDropped: () => {} },
    onError: (error) => onError(error),
    onStarted: (work) => started.push(work),
  })
  onClose(() => stop(stopMs))
  return started[0] as StartedWork
}

/** Builds the production app, whose callers and clock the test controls. */
async function openHttp(parts: Parts, onClose: OnClose) {
  const { db, sealer, now, random, config, folder, outbox, callers, onError } = parts
  const operating = openOperations({ ...parts, wall: now, later, dataDir: folder, version })
  onClose(operating.stop)
  const audit = openAudit({ db, sealer, now, onError: (error) => onError(error) })
  onClose(audit.flush)
  const people = createUserParts({ db, sealer, issuer: baseUrl, now, random, branding: config.users, smtp: null })
  const app = await buildApp({
    ...config.http,
    ...parts,
    ...{ operations: operating.operations, audit, later, baseUrl, version, lookup },
    ...{ people: { ...people, sendInvitation: outbox.sendInvitation }, verify: callers.verify },
    ...{ provider: null, api: true, tls: null, trustedProxies: ['127.0.0.1'] },
    ...{ policy: { allowHttp: true, allowCidrs: [] }, taskSeconds: monthSeconds, requestLogRate: 0 },
    onResponse: () => {},
    countDeprecated: () => {},
    log: { access: () => {}, fault: onError },
  })
  onClose(() => app.close())
  onClose(() => parts.queue.stop(stopMs))
  await app.ready()
  return app
}
