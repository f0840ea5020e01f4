import { types } from 'node:util'
import { sql } from 'kysely'
import { isStorableText } from '../../http/text-rules.ts'
import type { Queryable } from '../../storage/database.ts'

/** Returns the next number of a counter; the numbers start at 1 and have no gaps. */
export type Next = (name: string) => Promise<number>

/**
 * Returns true for an async function of `set` or `defaults`. It awaits `next()`, so it must run in the transaction that
 * creates the row.
 */
export const isCounting = (value: unknown): value is (context: object) => Promise<unknown> =>
  types.isAsyncFunction(value)

/** The `next` passed to synchronous functions; it always throws. */
export const nextOutside: Next = () => {
  throw new Error('next() needs an async function: write async ({ next }) => … await next(name)')
}

const maxNameLength = 200

/**
 * Calls an async function with `next` and returns its result. Throws if the function awaits anything but `next()`,
 * because other requests may be waiting for the transaction to end.
 */
export async function counted(tx: Queryable, run: (context: { next: Next }) => Promise<unknown>): Promise<unknown> {
  const pending = new Set<Promise<number>>()
  let isOpen = true
  const next: Next = async (name) => {
    if (!isOpen) throw new Error('next() was called after the creation')
    return nextNumber(tx, name)
  }
  const tracked: Next = (name) => {
    const value = next(name)
    pending.add(value)
    return value.finally(() => pending.delete(value))
  }
  const result = run({ next: tracked }).then((value) => ({ value }))
  // The caller still receives the rejection; this only prevents an early rejection from being reported as unhandled.
  result.catch(() => {})
  try {
    for (;;) {
      const settled = await Promise.race([result, nextTurn()])
      if (settled) return settled.value
      if (pending.size === 0) throw new Error('The function awaits something other than next()')
      await Promise.race([result, ...pending])
    }
  } finally {
    isOpen = false
  }
}

/** Returns the next number of a counter. Throws for an invalid name. */
export async function nextNumber(tx: Queryable, name: string): Promise<number> {
  if (typeof name !== 'string' || name === '' || name.length > maxNameLength || !isStorableText(name)) {
    throw new Error(`next() needs the name of a counter, with 1 to ${maxNameLength} characters`)
  }
  return nextValue(tx, name)
}

const nextTurn = () => new Promise<undefined>((resolve) => setImmediate(resolve, undefined))

/**
 * Increments a counter and returns its new value; the first is 1. The row of the counter stays locked until the
 * transaction ends, so that transactions take the values one after another and a rollback leaves no gap.
 */
export async function nextValue(tx: Queryable, name: string): Promise<number> {
  const query = sql<{ value: number | string }>`
    insert into counters (name, value) values (${name}, 1)
    on conflict (name) do update set value = counters.value + 1 returning value`
  return Number((await query.execute(tx)).rows[0]?.value)
}
