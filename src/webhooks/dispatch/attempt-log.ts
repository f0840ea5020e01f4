import { sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import type { Tried } from './outcome.ts'

/** Stores a batch of attempts, which the delivery log shows. */
export async function addAttempts(tx: Queryable, { engine }: Database, batch: readonly Tried[]): Promise<void> {
  const rows = batch.flatMap(({ due, startedAt, outcome }) => {
    if (outcome === null) return []
    const { status, error, responseStart, responseHeaders } = outcome
    const duration = Math.round(outcome.durationMs)
    return [[due.id, due.attempts + 1, startedAt, duration, status, error, responseStart, responseHeaders]]
  })
  if (rows.length === 0) return
  await sql`
    insert into attempts
      (delivery_id, attempt, started_at, duration_ms, status_code, error, response_start, response_headers)
    select value ->> 0, cast(value ->> 1 as integer), value ->> 2, cast(value ->> 3 as integer),
      cast(value ->> 4 as integer), value ->> 5, value ->> 6, value ->> 7
    from ${engine.jsonRows(JSON.stringify(rows))}`.execute(tx)
}

export const hourMs = 3_600_000
/** Upper bounds of the latency buckets in ms. The last bucket also contains longer attempts. */
export const latencyBounds = [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000]
/** The columns that count the attempts in each latency bucket. */
export const latencyClasses = latencyBounds.map((ms) => `up_to_${ms}_ms`)
const counted = ['succeeded', 'failed', ...latencyClasses]

/** Returns the start of the hour that contains an instant, given in epoch ms. */
export const startOfHour = (ms: number): string => iso(Math.floor(ms / hourMs) * hourMs)

/**
 * Adds the attempts of a batch to their webhooks' counts for the current hour. Ignores test deliveries. Writes the rows
 * in the order of the webhooks' ids, so that concurrent transactions cannot deadlock.
 */
export async function countAttempts(tx: Queryable, { engine }: Database, batch: readonly Tried[], nowMs: number) {
  const outcomes = Map.groupBy(
    batch.filter(({ due, outcome }) => outcome !== null && due.webhookId !== null && due.isTest !== 1),
    ({ due }) => due.webhookId ?? '',
  )
  if (outcomes.size === 0) return
  const ordered = [...outcomes].sort(([one], [other]) => (one < other ? -1 : 1))
  const rows = ordered.map(([id, tries]) => {
    const succeeded = tries.filter(({ outcome }) => outcome?.delivered).length
    const inClass = latencyBounds.map(() => 0)
    for (const { outcome } of tries) {
      const at = classOf(outcome?.durationMs ?? 0)
      inClass[at] = (inClass[at] ?? 0) + 1
    }
    return [id, succeeded, tries.length - succeeded, ...inClass]
  })
  const added = counted.map((_, at) => sql`cast(value ->> ${sql.lit(at + 1)} as integer)`)
  const sums = counted.map((name) => sql.raw(`${name} = webhook_statistics.${name} + excluded.${name}`))
  await sql`
    insert into webhook_statistics (hour, webhook_id, ${sql.raw(counted.join(', '))})
    select ${startOfHour(nowMs)}, value ->> 0, ${sql.join(added)} from ${engine.jsonRows(JSON.stringify(rows))} where true
    on conflict (hour, webhook_id) do update set ${sql.join(sums)}`.execute(tx)
}

function classOf(durationMs: number): number {
  const at = latencyBounds.findIndex((bound) => durationMs <= bound)
  return at === -1 ? latencyBounds.length - 1 : at
}
