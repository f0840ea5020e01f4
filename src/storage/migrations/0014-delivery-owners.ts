import { type Kysely, sql } from 'kysely'

/**
 * Adds the owner to each delivery: the webhook's owner, or the event's owner for one-off callback URLs. A delivery
 * keeps its owner after the webhook is deleted. Existing deliveries of resource events get no owner if their webhook
 * has been deleted.
 */
export async function deliveryOwners(db: Kysely<unknown>): Promise<void> {
  for (const column of ['owner_client', 'owner_subject']) {
    await db.schema
      .alterTable('deliveries')
      .addColumn(column, 'text', (c) => c.notNull().defaultTo(''))
      .execute()
    const [of, name] = [sql.ref(`w.${column}`), sql.ref(column)]
    await sql`
      update deliveries set ${name} = coalesce(
        (select ${of} from webhooks as w where w.id = deliveries.webhook_id),
        (select ${sql.ref(`e.${column}`)} from events as e where e.id = deliveries.event_id and e.audience is null),
        '')`.execute(db)
  }
  await sql`create index deliveries_owner on deliveries (owner_client, owner_subject, id)`.execute(db)
}
