import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Endings } from './auth/endings.ts'
import { type Config, resultsUrlOf } from './config.ts'
import { pooledRandom } from './db/ids.ts'
import { requestCounter } from './db/request-counts.ts'
import { versionCallCounter } from './db/version-calls.ts'
import type { Definition } from './definition.ts'
import { openCounters } from './limit-counters.ts'
import { limitRules } from './limit-settings.ts'
import { nodeClock } from './node-clock.ts'
import { openQueue } from './queue/open.ts'
import { reportBounds } from './report-settings.ts'
import { inThread } from './resources/reports/in-thread.ts'
import { webhookKeys } from './resources/webhooks/secrets.ts'
import { sender } from './resources/webhooks/send.ts'
import { openResults } from './results/open.ts'
import type { Stores } from './stores.ts'
import { reportKinds } from './versions.ts'
import { webhookSending } from './webhook-sending.ts'

/** Has something closed at the end; what was opened last is closed first. */
export type OnClose = (closer: () => unknown) => void

interface Opening extends Stores {
  version: string
  log: Logger
  onClose: OnClose
  wall: () => number
  monotonic: () => number
  later: (ms: number, run: () => void) => () => void
}

const hourMs = 3_600_000

/** What both the HTTP service and the background service work with. */
export async function openParts(config: Config, definition: Definition, opening: Opening) {
  const { db, sealer, version, log, onClose, wall, monotonic } = opening
  const endings: Endings = { count: 0 }
  const opened = <Part extends { close: () => unknown }>(part: Part): Part => {
    onClose(part.close)
    return part
  }
  const clock = opened(await nodeClock({ db, log, wall, monotonic, onMoved: () => endings.count++ }))
  const { now } = clock
  const policy = { allowHttp: config.webhookAllowHttp, allowCidrs: config.webhookAllowCidrs }
  const resultsUrl = resultsUrlOf(config)
  const results = await openResults(resultsUrl)
  await results.sweepTemporary(now() - hourMs)
  const onError = (error: unknown, queue?: string) => log.error({ err: error, queue }, 'a job failed')
  const keys = await webhookKeys(db, sealer)
  const sending = webhookSending(config, log, now)
  const rules = limitRules(config)
  return {
    limits: rules && { rules, monotonic, counters: opened(await openLimits(config, now, opening)) },
    counter: opened(requestCounter({ db, now, onError })),
    versionCounter: opened(versionCallCounter({ db, now, onError })),
    definition,
    policy,
    results,
    queue: await openQueue({ db, now, random: Math.random, onError }),
    kinds: reportKinds(definition),
    produce: inThread({ databaseUrl: db.url, resultsUrl }),
    pdfFont: config.pdfFont,
    sender: opened(sender({ policy, timeoutMs: sending.callMs, now })),
    ...sending,
    webhookKeys: keys,
    ...reportBounds(config),
    onError,
    ...{ version, now, monotonic, clock, endings },
    random: pooledRandom(randomBytes),
    jitter: Math.random,
  }
}

/** Where calls are counted; what becomes of a store that is away is a warning, not a fault. */
const openLimits = ({ redisUrl }: Config, now: () => number, { db, log, later }: Opening) =>
  openCounters({ db, redisUrl, now, later, onError: (error, what) => log.warn({ err: error }, what) })
