import { sql } from 'kysely'
import type { Queryable } from './database.ts'

/**
 * Increments a counter and returns its new value; the first is 1. Its row stays locked until the transaction ends, so that
 * transactions take the values one after another and a rollback leaves no gap.
 */
export async function nextValue(tx: Queryable, name: string): Promise<number> {
  const query = sql<{ value: number | string }>`
    insert into counters (name, value) values (${name}, 1)
    on conflict (name) do update set value = counters.value + 1 returning value`
  return Number((await query.execute(tx)).rows[0]?.value)
}
