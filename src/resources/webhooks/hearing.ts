import type { ExpressionBuilder } from 'kysely'
import type { Queryable } from '../../db/open.ts'
import type { Tables, Webhook } from '../../db/tables.ts'

/** What a registration may be told of: the scopes of the token that made it, as far as its client has them still. */
export async function scopesHeard(tx: Queryable, { scopes, ownerClient }: Webhook): Promise<string[]> {
  const granted = (scopes ?? '').split(' ')
  const client = await tx
    .selectFrom('clients')
    .select(['scopes', 'revokedAt'])
    .where('id', '=', ownerClient)
    .executeTakeFirst()
  // A client that is not kept here is another issuer's.
  if (client === undefined) return granted
  const allowed = client.revokedAt === null ? client.scopes.split(' ') : []
  return granted.filter((scope) => allowed.includes(scope))
}

/** Deliveries of events (all, or those of a type) that are their owner's own, or that these scopes may be told of. */
export const toldOf =
  (scopes: readonly string[], type?: string) =>
  ({ exists, selectFrom }: ExpressionBuilder<Tables, 'deliveries'>) =>
    exists(
      selectFrom('events')
        .select('events.id')
        .whereRef('events.id', '=', 'deliveries.eventId')
        .$if(type !== undefined, (event) => event.where('events.type', '=', type as string))
        .where((event) => event.or([event('audience', 'is', null), event('audience', 'in', ['any', ...scopes])])),
    )
