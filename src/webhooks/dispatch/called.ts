import { sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Owned } from '../../storage/rows/revision.ts'
import type { Webhook } from '../../storage/tables/tables.ts'
import type { StoredSecret } from '../secrets.ts'
import { withLiveOwners } from './subscribers.ts'

/** The webhook columns that a call needs. */
export type CallableWebhook = Pick<
  Webhook,
  'id' | 'status' | 'stops' | 'scopes' | 'callbackUrl' | 'headers' | keyof Owned | keyof StoredSecret
>

interface Claimed {
  id: string
  eventId: string
  webhookId: string | null
  url: string
}

type Engine = Pick<Database, 'engine'>

/**
 * Returns the webhook to call for each of these deliveries, by delivery id. There is none if the webhook or its owner
 * was deleted, or if the webhook's address has changed and its scopes do not cover the event.
 */
export async function webhooksToCall(
  tx: Queryable,
  { engine }: Engine,
  rows: readonly Claimed[],
): Promise<ReadonlyMap<string, CallableWebhook>> {
  const ids = new Set(rows.flatMap(({ webhookId }) => webhookId ?? []))
  if (ids.size === 0) return new Map()
  const wanted = engine.jsonRows(JSON.stringify([...ids].map((id) => [id])))
  const found = await sql<CallableWebhook>`
    select id, status, stops, scopes, callback_url as "callbackUrl", headers, owner_client as "ownerClient", owner_subject as "ownerSubject",
      secret_sealed as "secretSealed", previous_secret_sealed as "previousSecretSealed",
      previous_secret_expires_at as "previousSecretExpiresAt"
    from webhooks where id in (select value ->> 0 from ${wanted})`.execute(tx.withoutPlugins())
  const present = await withLiveOwners(tx, { engine }, found.rows)
  const webhooks = new Map(present.map((row) => [row.id, row]))
  const uncovered = await uncoveredOf(tx, { engine }, rows, webhooks)
  return new Map(
    rows.flatMap(({ id, webhookId }) => {
      const webhook = webhooks.get(webhookId ?? '')
      return webhook === undefined || uncovered.has(id) ? [] : [[id, webhook] as const]
    }),
  )
}

/**
 * Returns the ids of deliveries that were created for an earlier address and whose events the webhook's current scopes
 * do not cover. They fail without a request, as if `settle.ts` had already settled them.
 */
async function uncoveredOf(
  tx: Queryable,
  { engine }: Engine,
  rows: readonly Claimed[],
  webhooks: ReadonlyMap<string, CallableWebhook>,
): Promise<ReadonlySet<string>> {
  const registered = (row: Claimed) => webhooks.get(row.webhookId ?? '')
  const moved = rows.filter((row) => (registered(row)?.callbackUrl ?? row.url) !== row.url)
  if (moved.length === 0) return new Set()
  const wanted = engine.jsonRows(JSON.stringify(moved.map(({ eventId }) => [eventId])))
  const { rows: events } = await sql<{ id: string; audience: string | null }>`
    select id, audience from events where id in (select value ->> 0 from ${wanted})`.execute(tx)
  const audiences = new Map(events.map(({ id, audience }) => [id, audience]))
  const isCovered = (row: Claimed) => {
    const audience = audiences.get(row.eventId) ?? null
    return audience === null || audience === 'any' || (registered(row)?.scopes ?? '').split(' ').includes(audience)
  }
  return new Set(moved.filter((row) => !isCovered(row)).map(({ id }) => id))
}
