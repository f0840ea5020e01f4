import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { AuthorCode, ChangeType, WriteUnit } from './hooks.ts'

/** The changes to one row in a transaction. */
interface RowEvents {
  first: ChangeType
  last: ChangeType
  /** The flags of the subscribers, by event type. */
  subscribed: Partial<Record<ChangeType, number>>
  count: number
  send: (change: ChangeType, subscribed: number) => Promise<void>
}

/**
 * Runs the writes of one transaction and sends at most one event per changed row, at the end or when the row is
 * deleted. A row that is created and then changed has only the event `created`; one that is created and then deleted
 * has none.
 */
export const inUnit: AuthorCode['inUnit'] = async (tx, by, run) => {
  const events = new Map<string, RowEvents>()
  const works: ((tx: Queryable) => Promise<void>)[] = []
  const unit: WriteUnit = {
    chain: by.unit?.chain ?? [],
    record: async ({ table, id }, change, subscribers, send) => {
      const key = keyOf(table, id)
      const known = events.get(key)
      // Sent immediately, because the event contains related rows that may be deleted next, and no change can follow a
      // deletion.
      const isSent = change === 'deleted' && known?.first !== 'created'
      const left = isSent ? 0 : subscribers
      if (known === undefined) {
        events.set(key, { first: change, last: change, subscribed: { [change]: left }, count: 1, send })
      } else {
        known.subscribed[change] = left
        Object.assign(known, { last: change, count: known.count + 1, send })
      }
      if (isSent && subscribers > 0) await send(change, subscribers)
    },
    changesOf: ({ table, id }) => events.get(keyOf(table, id))?.count ?? 0,
    atEnd: (work) => works.push(work),
  }
  const result = await run({ ...by, unit })
  for (const { first, last, subscribed, send } of events.values()) {
    const type = combined(first, last)
    const subscribers = (type && subscribed[type]) ?? 0
    if (type && subscribers > 0) await send(type, subscribers)
  }
  for (const work of works) await work(tx)
  return result
}

const keyOf = (table: string, id: RowId) => `${table} ${id}`

function combined(first: ChangeType, last: ChangeType): ChangeType | undefined {
  if (first === 'created') return last === 'deleted' ? undefined : 'created'
  return last
}
