import { sql } from 'kysely'
import { auditRecorder, theService } from '../../db/audit.ts'
import type { RandomBytes } from '../../db/ids.ts'
import type { Database, Queryable } from '../../db/open.ts'
import type { Sealer } from '../../db/seal.ts'
import type { Webhook } from '../../db/tables.ts'
import type { Queue } from '../../queue/queue.ts'
import { announceWebhook } from './announce-webhook.ts'
import { abandonDeliveries } from './deliveries.ts'
import type { Tried } from './record.ts'

export interface HealthOptions {
  db: Database
  queue: Queue
  sealer: Sealer
  now: () => number
  random: RandomBytes
}

const dayMs = 86_400_000
const toldAfterMs = dayMs
const disabledAfterMs = 5 * dayMs
const leastFailures = 10

/**
 * The registrations of a batch whose health may change, locked first of all, in order: so no two transactions wait for
 * each other. Where calls succeed as they did before, there is nothing to look at.
 */
export async function lockRegistrations(tx: Queryable, { engine }: Database, batch: readonly Tried[]) {
  const lanes = engine.jsonRows(JSON.stringify([...new Set(batch.map(({ due }) => due.lane))].map((lane) => [lane])))
  const { rows: failing } = await sql<{ lane: string }>`
    select lane from delivery_lanes where failures > 0 and lane in (select value ->> 0 from ${lanes})`.execute(tx)
  const ailing = new Set(failing.map(({ lane }) => lane))
  const touched = batch.filter(({ due, outcome }) => !outcome?.delivered || ailing.has(due.lane))
  const ids = [...new Set(touched.flatMap(({ due }) => due.webhookId ?? []))]
  if (ids.length === 0) return new Map<string, Webhook>()
  const wanted = engine.jsonRows(JSON.stringify(ids.map((id) => [id])))
  const { rows } = await sql<Webhook>`
    select * from webhooks where id in (select value ->> 0 from ${wanted}) order by id ${engine.lockRows}`.execute(tx)
  return new Map(rows.map((row) => [row.id, row]))
}

/**
 * Keeps since when registrations fail, tells their owners after a day, and disables those that answered 410 or failed for
 * five days and ten tries. `failures` are those in a row of each registration, after the batch. Audit entries come last.
 */
export async function recordHealth(
  tx: Queryable,
  options: HealthOptions,
  batch: readonly Tried[],
  webhooks: ReadonlyMap<string, Webhook>,
  failures: ReadonlyMap<string, number>,
): Promise<void> {
  const nowMs = options.now()
  const changed: Webhook[] = []
  const ending: { webhook: Webhook; reason: string }[] = []
  for (const [id, tries] of Map.groupBy(batch, ({ due }) => due.webhookId)) {
    const before = webhooks.get(id ?? '')
    if (before === undefined) continue
    const after = tries.reduce(afterOne, before)
    const reason = whyDisable(after, tries, failures.get(id ?? '') ?? 0, nowMs)
    if (reason !== null && after.status === 'active') ending.push({ webhook: after, reason })
    else if (isToBeTold(after, nowMs)) after.failingTold = await tellFailing(tx, options, after, nowMs)
    if (after.failingSince !== before.failingSince || after.failingTold !== before.failingTold) changed.push(after)
  }
  await storeFailing(tx, options.db, changed)
  for (const { webhook, reason } of ending) await disable(tx, options, webhook, reason)
}

/** An episode of failing ends with the first success. A 410 is no failure: it says that nothing is to be sent. */
function afterOne(webhook: Webhook, { outcome, startedAt }: Tried): Webhook {
  if (outcome === null || outcome.gone) return webhook
  if (outcome.delivered) return { ...webhook, failingSince: null, failingTold: null }
  return { ...webhook, failingSince: webhook.failingSince ?? startedAt }
}

function whyDisable(
  { failingSince }: Webhook,
  tries: readonly Tried[],
  failures: number,
  nowMs: number,
): string | null {
  if (tries.some(({ outcome }) => outcome?.gone)) return 'The endpoint answered 410 Gone'
  if (failingSince === null || nowMs - Date.parse(failingSince) < disabledAfterMs || failures < leastFailures)
    return null
  return 'No call has succeeded for five days'
}

/** Once in each episode: one that was told before this one began is another. */
const isToBeTold = ({ status, failingSince, failingTold }: Webhook, nowMs: number): boolean =>
  status === 'active' &&
  failingSince !== null &&
  (failingTold === null || failingTold < failingSince) &&
  nowMs - Date.parse(failingSince) >= toldAfterMs

async function tellFailing(tx: Queryable, options: HealthOptions, webhook: Webhook, nowMs: number): Promise<string> {
  const instant = new Date(nowMs).toISOString()
  const since = webhook.failingSince as string
  const news = { kind: 'webhook.failing', since, reason: 'No call has succeeded for a day' } as const
  await announceWebhook(tx, options, webhook, news, instant)
  return instant
}

async function storeFailing(tx: Queryable, { engine }: Database, changed: readonly Webhook[]): Promise<void> {
  if (changed.length === 0) return
  const rows = JSON.stringify(changed.map(({ id, failingSince, failingTold }) => [id, failingSince, failingTold]))
  await sql`
    update webhooks set failing_since = a.since, failing_told = a.told
    from (select value ->> 0 as id, value ->> 1 as since, value ->> 2 as told from ${engine.jsonRows(rows)}) as a
    where a.id = webhooks.id`.execute(tx)
}

/** Ends a registration's deliveries with the reason shown; the owner can enable it again. */
async function disable(tx: Queryable, options: HealthOptions, webhook: Webhook, reason: string): Promise<void> {
  const instant = new Date(options.now()).toISOString()
  await tx
    .updateTable('webhooks')
    .set((row) => ({ status: 'disabled', statusReason: reason, updatedAt: instant, revision: row('revision', '+', 1) }))
    .where('id', '=', webhook.id)
    .execute()
  await abandonDeliveries(tx, { webhookId: webhook.id }, instant)
  await announceWebhook(tx, options, webhook, { kind: 'webhook.disabled', since: instant, reason }, instant)
  const entry = { ...theService, event: 'webhook.disabled', target: webhook.id, details: { reason } } as const
  await auditRecorder(options.sealer, options.now)(tx, entry)
}
