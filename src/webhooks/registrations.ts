import type { ExpressionBuilder } from 'kysely'
import { type AuditActor, auditRecorder } from '../audit/chain.ts'
import type { Caller } from '../http/policies/authenticate.ts'
import type { Precondition } from '../http/policies/conditional.ts'
import { Problem, preconditionFailed } from '../http/problems/problem.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { newId, type RandomBytes } from '../storage/ids.ts'
import { wherePrecondition } from '../storage/rows/precondition.ts'
import { firstRevision } from '../storage/rows/revision.ts'
import type { Tables, Webhook } from '../storage/tables/tables.ts'
import { settle } from './deliveries/settle.ts'
import { newSecret } from './dispatch/sign.ts'
import type { RegistrationBody } from './rules.ts'
import { headersAad, type Owner, secretAad } from './secrets.ts'

export interface Store {
  db: Database
  sealer: Sealer
  now: () => number
  random: RandomBytes
}

type Rows = ExpressionBuilder<Tables, 'webhooks'>

export const ownerOf = ({ clientId, subject }: Caller): Owner => ({ ownerClient: clientId, ownerSubject: subject })

/** Returns whether a caller owns a webhook. */
export const isOwner = ({ clientId, subject }: Caller, { ownerClient, ownerSubject }: Owner): boolean =>
  clientId === ownerClient && subject === ownerSubject

/** Selects the rows visible to a caller: the caller's own, or all rows for an administrator. */
export const visibleTo = (caller: Caller) => (row: Rows) =>
  row.and(caller.scopes.has('admin') ? {} : { ...ownerOf(caller) })

/** Returns the row of a new webhook and the representation for the response, which includes the webhook's secret. */
export function newRegistration({ sealer, now, random }: Store, caller: Caller, body: RegistrationBody) {
  const id = newId('whk', random)
  const secret = newSecret(random)
  const instant = new Date(now()).toISOString()
  const row: Webhook = {
    id,
    ...ownerOf(caller),
    event: body.event,
    callbackUrl: body.callbackUrl,
    description: body.description ?? null,
    headers: body.headers ? sealer.seal(JSON.stringify(body.headers), headersAad(id)) : null,
    payloadStyle: body.payloadStyle === 'envelope' ? 'envelope' : 'plain',
    version: body.version ?? null,
    status: 'active',
    statusReason: null,
    scopes: [...caller.scopes].join(' '),
    secretSealed: sealer.seal(secret, secretAad(id)),
    previousSecretSealed: null,
    previousSecretExpiresAt: null,
    failingSince: null,
    failingTold: null,
    stops: 0,
    ...firstRevision(instant),
  }
  return { row, shown: { ...webhookViewOf(sealer)(row), secret } }
}

const maxOfOwner = 1_000

/**
 * Adds a webhook and an audit entry. Throws WEBHOOK_LIMIT_REACHED if the owner has too many webhooks, because each one
 * adds to the cost of the events that it subscribes to. Concurrent inserts may exceed the limit slightly; rate limits
 * keep their number small.
 */
export async function insert(tx: Queryable, row: Webhook, { sealer, now }: Store, actor: AuditActor): Promise<void> {
  const { ownerClient, ownerSubject } = row
  const others = tx
    .selectFrom('webhooks')
    .select('id')
    .where((of) => of.and({ ownerClient, ownerSubject }))
  if ((await others.limit(maxOfOwner).execute()).length === maxOfOwner) {
    throw new Problem('WEBHOOK_LIMIT_REACHED', `You already have ${maxOfOwner} webhooks, the maximum: delete one first`)
  }
  await tx.insertInto('webhooks').values(row).execute()
  const details = { event: row.event, host: hostOf(row.callbackUrl) }
  await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.created', target: row.id, details })
}

/** Returns only the host, because a callback's path or query may contain one of the receiver's secrets. */
export const hostOf = (url: string) => URL.parse(url)?.host ?? ''

/** Handles a failed insert or update: throws DUPLICATE_RESOURCE for a duplicate, and otherwise rethrows the error. */
export function refuseDuplicate(db: Database, error: unknown): never {
  if (!db.engine.isDuplicate(error)) throw error
  throw new Problem('DUPLICATE_RESOURCE', 'You have already registered this `callbackUrl` for this `event`', {
    cause: error,
  })
}

/** Decrypts a webhook's static headers. */
export const headersOf = (sealer: Sealer, { id, headers }: Webhook): Record<string, string> =>
  headers === null ? {} : JSON.parse(sealer.open(headers, headersAad(id)))

/** Converts a row to a representation that includes the fields used to compute its validators. */
export const webhookViewOf = (sealer: Sealer) => (row: Webhook) => ({
  id: row.id,
  event: row.event,
  callbackUrl: row.callbackUrl,
  ...(row.description !== null && { description: row.description }),
  ...(row.headers !== null && { headers: headersOf(sealer, row) }),
  payloadStyle: row.payloadStyle,
  ...(row.version !== null && { version: row.version }),
  status: row.status,
  ...(row.statusReason !== null && { statusReason: row.statusReason }),
  ...(row.previousSecretExpiresAt !== null && { previousSecretExpiresAt: row.previousSecretExpiresAt }),
  createdAt: row.createdAt,
  revision: row.revision,
  sharesSecond: row.sharesSecond,
  updatedAt: row.updatedAt,
})

/** Converts a row to the representation for a caller; administrators also see the owner. */
export const webhookViewFor = (sealer: Sealer, { scopes }: Pick<Caller, 'scopes'>) => {
  const show = webhookViewOf(sealer)
  if (!scopes.has('admin')) return show
  return (row: Webhook) => ({ ...show(row), ownerClient: row.ownerClient, ownerSubject: row.ownerSubject })
}

const wellFormed = /^whk_[\w-]{22}$/

/** Finds a webhook. Throws the same RESOURCE_NOT_FOUND for an unknown id and for a webhook hidden from the caller. */
export async function find(tx: Queryable, caller: Caller, id: string): Promise<Webhook> {
  const query = tx.selectFrom('webhooks').selectAll().where('id', '=', id).where(visibleTo(caller))
  const row = wellFormed.test(id) ? await query.executeTakeFirst() : undefined
  if (row === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such webhook')
  return row
}

/**
 * Finds a webhook and locks it until the end of the transaction, so that nothing else changes it or records a call's
 * outcome. Throws the same errors as `find`, or PRECONDITION_FAILED, because the locking statement also checks the
 * preconditions.
 */
export async function hold(
  tx: Queryable,
  caller: Caller,
  id: string,
  precondition: Precondition = {},
): Promise<Webhook> {
  const { id: known } = await find(tx, caller, id)
  const touch = tx.updateTable('webhooks').set((row) => ({ revision: row.ref('revision') }))
  const held = await wherePrecondition(touch.where('id', '=', known), precondition)
    .returningAll()
    .executeTakeFirst()
  if (held !== undefined) return held
  await find(tx, caller, id)
  throw preconditionFailed('The webhook')
}

/** Throws WEBHOOK_NOT_ACTIVE if the webhook is paused or disabled. */
export function refuseInactive({ status }: Webhook): void {
  if (status !== 'active') throw new Problem('WEBHOOK_NOT_ACTIVE', `The webhook is ${status}: enable it first`)
}

/**
 * Deletes a webhook and marks its waiting deliveries as failed. Its delivery log stays. Throws the same errors as
 * `hold`.
 */
export function remove(
  { db, queue, sealer, now }: Store & { queue: Queue },
  caller: Caller,
  id: string,
  precondition: Precondition,
  actor: AuditActor,
): Promise<void> {
  const instant = new Date(now()).toISOString()
  return db.write(async (tx) => {
    await hold(tx, caller, id, precondition)
    await tx.deleteFrom('webhooks').where('id', '=', id).execute()
    await settle(tx, { db, queue }, id, instant)
    await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.deleted', target: id })
  })
}
