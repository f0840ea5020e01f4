import { type Kysely, sql } from 'kysely'

/**
 * Deliveries belong to the owner of the webhook, or to the owner of the event when the address came with a request; they
 * keep their owner when the webhook is deleted. Existing deliveries of a deleted webhook about another owner's change get
 * no owner.
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
