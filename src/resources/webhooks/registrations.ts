import type { ExpressionBuilder } from 'kysely'
import { type AuditActor, auditRecorder } from '../../db/audit.ts'
import { newId, type RandomBytes } from '../../db/ids.ts'
import type { Database, Queryable } from '../../db/open.ts'
import type { Sealer } from '../../db/seal.ts'
import type { Tables, Webhook } from '../../db/tables.ts'
import type { Precondition } from '../../http/conditional.ts'
import type { Caller } from '../../http/identify.ts'
import { Problem } from '../../http/problem.ts'
import { abandonDeliveries } from './deliveries.ts'
import type { RegistrationBody } from './rules.ts'
import { headersPlace, type Owner, secretPlace } from './secrets.ts'
import { newSecret } from './sign.ts'

export interface Store {
  db: Database
  sealer: Sealer
  now: () => number
  random: RandomBytes
}

type Rows = ExpressionBuilder<Tables, 'webhooks'>

export const ownerOf = ({ clientId, subject }: Caller): Owner => ({ ownerClient: clientId, ownerSubject: subject })

/** The rows a caller may know of: its own, or all for an administrator. */
export const visibleTo = (caller: Caller) => (row: Rows) =>
  row.and(caller.scopes.has('admin') ? {} : { ...ownerOf(caller) })

/** A new registration as it is stored, and as it is shown once: with its secret. */
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
    headers: body.headers ? sealer.seal(JSON.stringify(body.headers), headersPlace(id)) : null,
    payloadStyle: body.payloadStyle === 'envelope' ? 'envelope' : 'plain',
    status: 'active',
    statusReason: null,
    scopes: [...caller.scopes].join(' '),
    secretSealed: sealer.seal(secret, secretPlace(id)),
    previousSecretSealed: null,
    previousSecretExpiresAt: null,
    failingSince: null,
    failingTold: null,
    revision: 1,
    createdAt: instant,
    updatedAt: instant,
  }
  return { row, shown: { ...shownBy(sealer)(row), secret } }
}

/** Adds a registration, and tells the audit log who did. */
export async function insert(tx: Queryable, row: Webhook, { sealer, now }: Store, actor: AuditActor): Promise<void> {
  await tx.insertInto('webhooks').values(row).execute()
  const details = { event: row.event, host: hostOf(row.callbackUrl) }
  await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.created', target: row.id, details })
}

/** A callback's path or query may hold a secret of its receiver's. */
const hostOf = (url: string) => URL.parse(url)?.host ?? ''

/** What a failed insert means: DUPLICATE_RESOURCE, or the error itself. */
export function refuseDuplicate(db: Database, error: unknown): never {
  if (!db.engine.isDuplicate(error)) throw error
  throw new Problem('DUPLICATE_RESOURCE', 'This address is registered for this event already', { cause: error })
}

/** Row → representation; revision and updatedAt stay for the validators. */
export const shownBy = (sealer: Sealer) => (row: Webhook) => ({
  id: row.id,
  event: row.event,
  callbackUrl: row.callbackUrl,
  ...(row.description !== null && { description: row.description }),
  ...(row.headers !== null && {
    headers: JSON.parse(sealer.open(row.headers, headersPlace(row.id))) as Record<string, string>,
  }),
  payloadStyle: row.payloadStyle,
  status: row.status,
  ...(row.statusReason !== null && { statusReason: row.statusReason }),
  createdAt: row.createdAt,
  revision: row.revision,
  updatedAt: row.updatedAt,
})

const wellFormed = /^whk_[\w-]{22}$/

/** The registration, or the same RESOURCE_NOT_FOUND for an unknown id and for somebody else's. */
export async function find(db: Database, caller: Caller, id: string): Promise<Webhook> {
  const query = db.read.selectFrom('webhooks').selectAll().where('id', '=', id).where(visibleTo(caller))
  const row = wellFormed.test(id) ? await query.executeTakeFirst() : undefined
  if (row === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such webhook')
  return row
}

/** Removes a registration and ends its pending deliveries; its log stays. Throws as `find`, or PRECONDITION_FAILED. */
export async function remove(
  { db, sealer, now }: Store,
  caller: Caller,
  id: string,
  demands: Precondition,
  actor: AuditActor,
): Promise<void> {
  const { id: known } = await find(db, caller, id)
  const instant = new Date(now()).toISOString()
  const removed = await db.write(async (tx) => {
    const deletion = tx.deleteFrom('webhooks').where('id', '=', known).where(meets(demands))
    if ((await deletion.executeTakeFirst()).numDeletedRows === 0n) return false
    await abandonDeliveries(tx, { webhookId: known }, instant)
    await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.deleted', target: known })
    return true
  })
  if (removed) return
  await find(db, caller, id)
  throw new Problem('PRECONDITION_FAILED', "The webhook does not meet the request's conditions")
}

const noRevision = -1

/** The demands as a condition of the statement: the check cannot be separated from the change. */
const meets = (demands: Precondition) => (row: Rows) => {
  const { matches = 'any', differs = [], unchangedBefore } = demands
  return row.and([
    ...(matches === 'any' ? [] : [row('revision', 'in', [noRevision, ...matches])]),
    differs === 'any' ? row('revision', '=', noRevision) : row('revision', 'not in', [noRevision, ...differs]),
    ...(unchangedBefore === undefined ? [] : [row('updatedAt', '<', unchangedBefore)]),
  ])
}
