import type { Database } from '../../db/open.ts'

const keptMs = 30 * 86_400_000
const batch = 500

/** Removes deliveries that ended more than 30 days ago with their attempts, and events that have none left. */
export async function expireDeliveries(db: Database, now: () => number): Promise<number> {
  const before = new Date(now() - keptMs).toISOString()
  const old = await db.read
    .selectFrom('deliveries')
    .select('id')
    .where('completedAt', 'is not', null)
    .where('completedAt', '<=', before)
    .limit(batch)
    .execute()
  const ids = old.map(({ id }) => id)
  await db.write(async (tx) => {
    if (ids.length > 0) {
      await tx.deleteFrom('attempts').where('deliveryId', 'in', ids).execute()
      await tx.deleteFrom('deliveries').where('id', 'in', ids).execute()
    }
    const told = tx.selectFrom('deliveries').select('eventId')
    await tx.deleteFrom('events').where('createdAt', '<=', before).where('id', 'not in', told).execute()
  })
  return ids.length
}
