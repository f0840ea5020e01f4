import { sweepInvitations } from './auth/invitations.ts'
import { sweepLoginTries } from './auth/login-tries.ts'
import { sweepExpired } from './auth/records.ts'
import { sweepAnswers } from './db/answers.ts'
import type { RandomBytes } from './db/ids.ts'
import { expireLimitWindows } from './db/limit-windows.ts'
import type { Database } from './db/open.ts'
import { expireQuotaUses } from './db/quota-uses.ts'
import { expireRequestCounts } from './db/request-counts.ts'
import type { Sealer } from './db/seal.ts'
import type { Queue } from './queue/queue.ts'
import { expireReports } from './resources/reports/expire.ts'
import { generate } from './resources/reports/generate.ts'
import type { Produce } from './resources/reports/in-thread.ts'
import type { ReportKind } from './resources/reports/kinds.ts'
import { deliver } from './resources/webhooks/deliver.ts'
import { expireDeliveries } from './resources/webhooks/expire.ts'
import { fanOut } from './resources/webhooks/fan-out.ts'
import type { WebhookKeys } from './resources/webhooks/secrets.ts'
import type { Sender } from './resources/webhooks/send.ts'
import type { ResultStore } from './results/store.ts'

export interface WorkerOptions {
  db: Database
  queue: Queue
  results: ResultStore
  sealer: Sealer
  kinds: readonly ReportKind[]
  produce: Produce
  pdfFont: string | null
  resultSeconds: number
  taskSeconds: number
  sender: Sender
  webhookKeys: WebhookKeys
  /** Seconds before each try of a delivery. */
  schedule: readonly number[]
  version: string
  now: () => number
  random: RandomBytes
  jitter: () => number
  onError: (error: unknown) => void
}

/** The background service on one page: each kind of job and what does it, and what is swept; returns how to stop. */
export function startWork(options: WorkerOptions): () => void {
  const { db, queue, results, kinds, produce, pdfFont, resultSeconds, taskSeconds, now, random, onError } = options
  const { sealer, sender, webhookKeys, schedule, version, jitter } = options
  const reports = { db, queue, results, kinds, produce, pdfFont, resultSeconds, now, random, onError }
  queue.work('report.generate', generate(reports))
  queue.work('event.fan-out', fanOut({ db, queue, now, random }))
  const delivery = { db, queue, sender, sealer, keys: webhookKeys, schedule, version, now, random, jitter }
  queue.work('delivery.send', deliver(delivery))
  return sweepEvery(sweepMs, onError, [
    () => expireReports({ db, results, now, taskSeconds }),
    () => expireDeliveries(db, now),
    () => sweepExpired(db, now),
    () => expireRequestCounts(db, now),
    () => sweepInvitations(db, now),
    () => sweepLoginTries(db, now),
    () => sweepAnswers(db, now),
    () => expireLimitWindows(db, now),
    () => expireQuotaUses(db, now),
  ])
}

const sweepMs = 60_000

/** Runs the sweeps one after the other, again and again; a failed one is reported and tried again next time. */
function sweepEvery(ms: number, onError: (error: unknown) => void, sweeps: (() => Promise<unknown>)[]): () => void {
  let running = false
  const timer = setInterval(async () => {
    if (running) return
    running = true
    for (const sweep of sweeps) await sweep().catch(onError)
    running = false
  }, ms)
  return () => clearInterval(timer)
}
