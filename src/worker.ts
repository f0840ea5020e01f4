import type { RandomBytes } from './db/ids.ts'
import type { Database } from './db/open.ts'
import type { Sealer } from './db/seal.ts'
import type { Queue } from './queue/queue.ts'
import { generate } from './resources/reports/generate.ts'
import type { ReportKind } from './resources/reports/kinds.ts'
import { deliver } from './resources/webhooks/deliver.ts'
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
  resultSeconds: number
  sender: Sender
  webhookKeys: WebhookKeys
  /** Seconds before each try of a delivery. */
  schedule: readonly number[]
  version: string
  now: () => number
  random: RandomBytes
  jitter: () => number
}

/** The background service on one page: each kind of job and what does it. */
export function startWork(options: WorkerOptions): void {
  const { db, queue, results, kinds, resultSeconds, now, random } = options
  const { sealer, sender, webhookKeys, schedule, version, jitter } = options
  queue.work('report.generate', generate({ db, queue, results, kinds, resultSeconds, now, random }))
  queue.work('event.fan-out', fanOut({ db, queue, now, random }))
  const delivery = { db, queue, sender, sealer, keys: webhookKeys, schedule, version, now, random, jitter }
  queue.work('delivery.send', deliver(delivery))
}
