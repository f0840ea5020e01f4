import { type ExpressionBuilder, sql } from 'kysely'
import { isUserId } from '../../http/policies/authenticate.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Owned } from '../../storage/rows/revision.ts'
import type { Tables, Webhook } from '../../storage/tables/tables.ts'

/**
 * Returns the scopes that limit a webhook's events: the scopes of the registering token, except any that its client has
 * lost.
 */
export async function effectiveScopes(
  tx: Queryable,
  { scopes, ownerClient }: Pick<Webhook, 'scopes' | 'ownerClient'>,
): Promise<string[]> {
  const granted = (scopes ?? '').split(' ')
  const client = await tx
    .selectFrom('clients')
    .select(['scopes', 'revokedAt'])
    .where('id', '=', ownerClient)
    .executeTakeFirst()
  // A client that is not stored here belongs to another issuer.
  if (client === undefined) return granted
  const allowed = client.revokedAt === null ? client.scopes.split(' ') : []
  return granted.filter((scope) => allowed.includes(scope))
}

/**
 * Filters out rows of deleted users; keeps those owned by a client, by another issuer's subject, or by an existing
 * user.
 */
export async function withLiveOwners<Row extends Owned>(
  tx: Queryable,
  { engine }: Pick<Database, 'engine'>,
  rows: readonly Row[],
): Promise<readonly Row[]> {
  const isOfUser = ({ ownerClient, ownerSubject }: Owned) => ownerSubject !== ownerClient && isUserId(ownerSubject)
  const subjects = [...new Set(rows.filter(isOfUser).map(({ ownerSubject }) => ownerSubject))]
  if (subjects.length === 0) return rows
  const wanted = engine.jsonRows(JSON.stringify(subjects.map((subject) => [subject])))
  const { rows: users } = await sql<{ id: number }>`
    select id from users where id in (select cast(value ->> 0 as integer) from ${wanted})`.execute(tx)
  const present = new Set(users.map(({ id }) => String(id)))
  return rows.filter((row) => !isOfUser(row) || present.has(row.ownerSubject))
}

/** Matches deliveries of the owner's own events and of events that the scopes cover. */
export const coveredBy =
  (scopes: readonly string[]) =>
  ({ exists, selectFrom }: ExpressionBuilder<Tables, 'deliveries'>) =>
    exists(
      selectFrom('events')
        .select('events.id')
        .whereRef('events.id', '=', 'deliveries.eventId')
        .where((event) => event.or([event('audience', 'is', null), event('audience', 'in', ['any', ...scopes])])),
    )
