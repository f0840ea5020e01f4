import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach } from 'node:test'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse as Response } from 'fastify'
import { buildApp } from '../../src/app.ts'
import { type Audit, openAudit } from '../../src/audit/buffer.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { accountRules } from '../../src/code/accounts.ts'
import { codeJobs } from '../../src/code/run-jobs.ts'
import { readConfig } from '../../src/config/config.ts'
import type { Definition } from '../../src/definition/service.ts'
import { storedDefinition } from '../../src/definition/stored.ts'
import { folderResults } from '../../src/files/folder.ts'
import type { ResultStore } from '../../src/files/store.ts'
import type { TokenVerification } from '../../src/http/policies/authenticate.ts'
import type { Log } from '../../src/logging/entries.ts'
import { openMetrics } from '../../src/metrics/metrics.ts'
import { reportKinds } from '../../src/mount-versions.ts'
import { createUserParts } from '../../src/oauth/users/users.ts'
import { openOperations } from '../../src/operations/open.ts'
import type { Operations } from '../../src/operations/routes.ts'
import { openQueue } from '../../src/queue/open.ts'
import type { Queue } from '../../src/queue/queue.ts'
import type { LimitRules } from '../../src/rate-limits/limiter.ts'
import { quotaUses } from '../../src/rate-limits/stores/quotas.ts'
import { rowAccess } from '../../src/row-access.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { uuidSource } from '../../src/storage/ids.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { tableSizesInThread } from '../../src/storage/table-sizes.ts'
import { versionLifecycles } from '../../src/version-lifecycle.ts'
import { webhookKeys } from '../../src/webhooks/secrets.ts'
import type { EngineUnderTest } from './engines.ts'
import { rulesOf } from './limits.ts'
import { later, muchLater } from './timers.ts'

export const everyScope =
  'reports:read reports:write webhooks:read webhooks:write users:read users:write products:write books:write'

/** Returns a test token: `client|subject|scope scope`, encoded in base64url. */
export const token = (scopes: string, clientId = 'cli_test', subject = clientId) =>
  Buffer.from(`${clientId}|${subject}|${scopes}`).toString('base64url')

const verify = (text: string): TokenVerification => {
  if (text === 'expired') return { refused: 'AUTH_TOKEN_EXPIRED' }
  const decoded = Buffer.from(text, 'base64url').toString()
  const [clientId, subject, scopes] = /^[\x20-\x7e]*$/.test(decoded) ? decoded.split('|') : []
  if (!clientId || !subject || scopes === undefined) return { refused: 'AUTH_TOKEN_INVALID' }
  return { caller: { clientId, subject, scopes: new Set(scopes.split(' ')) } }
}

export interface TestApp {
  app: FastifyInstance
  faults: unknown[]
  audit: Audit
  /** Sends a request as if over HTTPS, by default with every scope. */
  send: (request: InjectOptions & { scopes?: string | null; token?: string }) => Promise<Response>
  clock: { now: number }
  results: ResultStore
}

/** Login page settings for tests: the default branding, and no mail server. */
export const looks = { branding: { productName: 'Plinth', accentColor: '#2552c8' }, smtp: null }

type Settings = Omit<Partial<Parameters<typeof buildApp>[0]>, 'operations'> & {
  operations?: Partial<Operations>
  /** Environment variables that configure the operator routes. */
  env?: Record<string, string>
  /** Rate limits, counted in this process; none by default. */
  rules?: Partial<LimitRules>
  /** The path prefixes under which to serve the versions; all by default. Each adds 30 ms to the start. */
  prefixes?: readonly string[]
}

/** A work factor at which encrypting a backup takes almost no time. */
export const quickWorkFactor = 4

const silent = { info: () => {}, warn: () => {}, error: () => {} }

/** A log that passes errors to `onError` and ignores everything else. */
const faultLog = (onError: (error: unknown) => void): Log => ({
  info: () => {},
  warn: () => {},
  error: ({ err }: { err?: unknown }) => onError(err),
})

/** Builds the production app on a test database, with a clock that the test controls; `more` adds routes. */
export async function testApp(
  db: Database,
  { rules, operations, env, prefixes, ...settings }: Settings = {},
  more: (app: FastifyInstance) => void = () => {},
): Promise<TestApp> {
  const faults: unknown[] = []
  const clock = { now: Date.parse('2026-03-01T12:00:00.500Z') }
  const now = () => clock.now
  const folder = mkdtempSync(join(tmpdir(), 'plinth-app-'))
  const onError = (error: unknown) => faults.push(error)
  const opened = settings.queue ? null : await openQueue({ db, now, random: Math.random, onError })
  const queue = settings.queue ?? (opened as Queue)
  const results = folderResults(folder)
  const seal = settings.sealer ?? sealer(Buffer.alloc(32, 1), randomBytes)
  const definition: Definition = await storedDefinition(db.read, settings.definition ?? builtIn)
  const audit = openAudit({ db, sealer: seal, now, onError })
  const versions = versionLifecycles(definition, {})
  const metrics = openMetrics({ version: 'test', versions, monotonic: now, ofThread: null })
  const operatorEnv = { DATABASE_URL: db.url, PLINTH_DATA_DIR: folder, ...env }
  const operating = openOperations({
    ...{ config: readConfig(operatorEnv), env: operatorEnv, definition, dataDir: folder, db, sealer: seal, results },
    ...{
      version: 'test',
      log: faultLog(onError),
      now,
      wall: now,
      monotonic: now,
      later: muchLater,
      workFactor: quickWorkFactor,
    },
  })
  await operating.startBackups()
  const { jobs, adder } = codeJobs(definition.code, {
    ...{
      db,
      queue,
      now,
      monotonic: now,
      random: randomBytes,
      fetch,
      log: silent,
      publicRead: false,
      requireIfMatch: false,
    },
    ...{ zone: definition.zone, all: definition.collections.map(({ declaration }) => declaration) },
    ...{ factsOf: rowAccess(definition, { db, now }).factsOf, newUuid: uuidSource({ now, random: randomBytes }) },
    accounts: accountRules(definition.users, { db, sealer: seal, now }),
  })
  const app = await buildApp({
    db,
    audit,
    queue,
    results,
    kinds: reportKinds(definition),
    sealer: seal,
    policy: { allowHttp: true, allowCidrs: ['127.0.0.0/8', '::1/128'] },
    webhookKeys: await webhookKeys(db, seal),
    provider: null,
    people: createUserParts({ db, sealer: seal, issuer: 'https://plinth.test', now, random: randomBytes, ...looks }),
    api: true,
    random: randomBytes,
    taskSeconds: 2_592_000,
    later,
    operations: { ...operating.operations, ...operations },
    codeServices: { jobs: adder, fetch, log: silent, monotonic: now },
    verify,
    now,
    baseUrl: 'https://plinth.test',
    tls: null,
    trustedProxies: ['127.0.0.1'],
    corsOrigins: [],
    publicRead: true,
    requireIfMatch: false,
    lifecycles: versions,
    metrics,
    onResponse: () => {},
    requestLogRate: 100,
    jobs,
    countDeprecated: () => {},
    log: { access: () => {}, fault: (error) => faults.push(error) },
    ...(rules && {
      limits: { rules: rulesOf(rules), counters: { record: quotaUses(db), shared: null }, monotonic: now },
    }),
    ...settings,
    definition: prefixes ? servedUnder(prefixes, definition) : definition,
  })
  const sizes = { tableSizes: () => tableSizesInThread(db), hasBackups: false }
  const watched = { db, now, monotonic: now, later: muchLater, space: results.space, onError, ...sizes }
  if (opened) metrics.watch({ ...watched, queue: opened })
  app.addHook('onClose', async () => {
    await operating.stop()
    await audit.flush()
    await queue.stop(1_000)
    rmSync(folder, { recursive: true })
  })
  more(app)
  await app.ready()
  forgetWhenClosed(app)
  const send: TestApp['send'] = ({ scopes = everyScope, token: sent, headers, ...request }) => {
    const bearer = sent ?? (scopes === null ? null : token(scopes))
    return app.inject({
      ...request,
      headers: {
        'x-forwarded-proto': 'https',
        ...(bearer && { authorization: `Bearer ${bearer}` }),
        ...headers,
      },
    })
  }
  return { app, faults, audit, send, clock, results }
}

/** Returns the definition with only these path prefixes. */
function servedUnder(prefixes: readonly string[], definition: Definition): Definition {
  const versions = Object.entries(definition.versions).map(([name, version]) => [
    name,
    { ...version, prefixes: version.prefixes.filter((prefix) => prefixes.includes(prefix)) },
  ])
  return { ...definition, versions: Object.fromEntries(versions) }
}

/**
 * Before the first test of the calling suite, builds the app on a new database. Fails the suite if the app reported any
 * error, such as the cause of a 5xx response.
 */
export function appOn(engine: EngineUnderTest, settings: Settings = {}): TestApp & { db: Database } {
  const service = {} as TestApp & { db: Database }
  before(async () => {
    service.db = await engine.database()
    if (settings.definition) await migrate(service.db, { tables: settings.definition.tables })
    Object.assign(service, await testApp(service.db, settings))
  })
  after(async () => {
    const { app, db, faults } = service
    await app.close()
    await db.close()
    forget(service)
    assert.deepEqual(faults, [])
  })
  return service
}

/** Empties a closed service, which the test runner keeps in memory because test functions refer to it. */
export function forget(service: object): void {
  for (const member of Reflect.ownKeys(service)) Reflect.deleteProperty(service, member)
}

/** Makes `close` also empty the app; closing it again does nothing. */
function forgetWhenClosed(app: FastifyInstance): void {
  const close = app.close.bind(app)
  const closeAndForget = async () => {
    await close()
    forget(app)
    Object.assign(app, { close: async () => {} })
  }
  app.close = closeAndForget as typeof app.close
}

/**
 * Creates a database for each test of the calling suite. Returns a function that migrates a definition's tables and starts
 * its app; each app is closed after its test.
 */
export function successiveAppsOn(engine: EngineUnderTest, settings: Pick<Settings, 'prefixes'> = {}) {
  const state = {} as { db: Database }
  const services: TestApp[] = []
  beforeEach(async () => {
    state.db = await engine.database()
  })
  afterEach(async () => {
    for (const { app } of services.splice(0)) await app.close()
    await state.db.close()
  })
  const start = async (definition: Definition, now?: () => number) => {
    const done = await migrate(state.db, { tables: definition.tables, ...(now && { now }) })
    const service = await testApp(state.db, { definition, ...settings })
    services.push(service)
    return { done, service }
  }
  return { state, start }
}
