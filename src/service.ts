import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { type Logger, pino } from 'pino'
import { buildApp } from './app.ts'
import { ensureBootstrapClient } from './auth/clients.ts'
import { signingKeys } from './auth/keys.ts'
import { authorizationServer } from './auth/server.ts'
import { tokenVerifier } from './auth/verify.ts'
import { localCertificates, providedCertificates } from './certificates.ts'
import { type Config, databaseUrlOf, resultsFolderOf } from './config.ts'
import { migrate } from './db/migrate.ts'
import { type Database, openDatabase } from './db/open.ts'
import { type Sealer, sealer } from './db/seal.ts'
import { redirectServer } from './http/redirect.ts'
import { logSink } from './log-sink.ts'
import { masterKey } from './master-key.ts'
import { openQueue } from './queue/open.ts'
import { webhookKeys } from './resources/webhooks/secrets.ts'
import { sender } from './resources/webhooks/send.ts'
import { folderResults } from './results/folder.ts'
import { reportKinds } from './versions.ts'
import { startWork } from './worker.ts'

/** A store opened as the configuration says, its schema up to date. */
export interface Stores {
  db: Database
  sealer: Sealer
  dataDir: string
}

/** A running service. */
export interface Service extends Stores {
  /** Where clients reach it. */
  baseUrl: string
  /** The certificate to trust, when the service made its own. */
  authorityFile: string | null
  /** Stops taking work, ends what is under way, gives back leases; resolves when nothing is left running. */
  close: () => Promise<void>
}

const now = Date.now
const drainMs = 18_000
const hourMs = 3_600_000

/** Opens the database and the keys, making what the first run lacks. */
export async function openStores(config: Config): Promise<Stores> {
  const dataDir = resolve(config.dataDir)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const db = await openDatabase(databaseUrlOf(config))
  await migrate(db)
  return { db, dataDir, sealer: sealer(masterKey(config.masterKey, dataDir), randomBytes) }
}

/** Starts everything the configuration asks for; resolves when requests are answered. */
export async function startService(config: Config, version: string): Promise<Service> {
  const sink = logSink(process.stdout)
  const log = pino({ level: config.logLevel }, sink)
  const stores = await openStores(config)
  const parts = await openParts(config, stores, version, log)
  const certificates = await serverCertificates(config, stores.dataDir)
  const baseUrl = config.baseUrl ?? `https://localhost:${config.port}`
  const app = await openApp(config, stores, parts, baseUrl, certificates, log)
  const stopSweeping = config.roles.includes('worker') ? startWork({ ...parts, ...stores }) : () => {}
  const redirect = await listen(app, config, baseUrl)
  return {
    ...stores,
    baseUrl,
    authorityFile: certificates?.authorityFile ?? null,
    close: async () => {
      redirect?.close()
      stopSweeping()
      await Promise.all([app.close(), parts.queue.stop(drainMs)])
      await parts.sender.close()
      await stores.db.close()
      sink.flush()
    },
  }
}

/** What both the HTTP service and the background service work with. */
async function openParts(config: Config, { db, sealer }: Stores, version: string, log: Logger) {
  const policy = { allowHttp: config.webhookAllowHttp, allowCidrs: config.webhookAllowCidrs }
  const results = folderResults(resultsFolderOf(config))
  await results.sweepTemporary(now() - hourMs)
  const onError = (error: unknown, queue?: string) => log.error({ err: error, queue }, 'a job failed')
  return {
    policy,
    results,
    queue: await openQueue({ db, now, random: Math.random, onError }),
    kinds: reportKinds(db),
    sender: sender({ policy, timeoutMs: config.webhookTimeoutSeconds * 1_000, now }),
    webhookKeys: await webhookKeys(db, sealer),
    resultSeconds: config.resultSeconds,
    taskSeconds: config.taskSeconds,
    onError,
    schedule: config.webhookSchedule,
    version,
    now,
    random: randomBytes,
    jitter: Math.random,
  }
}

type Parts = Awaited<ReturnType<typeof openParts>>
type Certificates = Awaited<ReturnType<typeof serverCertificates>>

async function openApp(
  config: Config,
  { db, sealer }: Stores,
  parts: Parts,
  baseUrl: string,
  certificates: Certificates,
  log: Logger,
): Promise<FastifyInstance> {
  const keys = await signingKeys({ db, sealer, now })
  const tokens = { issuer: baseUrl, audience: baseUrl, db, keys, now }
  const report = (error: unknown) => log.error({ err: error }, 'the authorization server failed')
  const { bootstrapClientId: id, bootstrapClientSecret: secret, accessTokenSeconds, roles } = config
  if (id !== null && secret !== null) await ensureBootstrapClient(db, sealer, id, secret)
  return buildApp({
    ...parts,
    db,
    sealer,
    baseUrl,
    provider: roles.includes('auth') ? authorizationServer({ ...tokens, sealer, accessTokenSeconds, report }) : null,
    verify: tokenVerifier(tokens),
    tls: certificates,
    api: roles.includes('api'),
    trustedProxies: config.trustedProxies,
    publicRead: config.publicRead,
    requireIfMatch: config.requireIfMatch,
    log: {
      access: (line) => log.info(line),
      fault: (error, requestId) => log.error({ err: error, requestId }, 'a request failed'),
    },
  })
}

async function serverCertificates(config: Config, dataDir: string) {
  if (config.tls === 'off') return null
  const { tlsCertFile, tlsKeyFile, baseUrl } = config
  if (tlsCertFile && tlsKeyFile) return { ...providedCertificates(tlsCertFile, tlsKeyFile), authorityFile: null }
  const hostnames = baseUrl === null ? [] : [new URL(baseUrl).hostname]
  return localCertificates(join(dataDir, 'certificates'), hostnames, now)
}

/** Opens the listeners; returns the one that only redirects, if there is one. */
async function listen(app: FastifyInstance, { host, port, httpPort, tls }: Config, baseUrl: string) {
  await app.listen({ host, port })
  if (httpPort === 0 || tls === 'off') return null
  const redirect = redirectServer(baseUrl).listen(httpPort, host)
  await once(redirect, 'listening')
  return redirect
}
