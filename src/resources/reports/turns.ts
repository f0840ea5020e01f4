import type { Queryable } from '../../db/open.ts'
import { Problem } from '../../http/problem.ts'

/** How many tasks one client may have waiting. */
export const mostWaiting = 100

const retrySeconds = '15'

/**
 * The turn of a client's next task, by start-time fair queueing: behind the client's own tasks, but not behind what
 * other clients have lined up. So each of the waiting clients gets every n-th place, however many tasks one of them has,
 * and nobody's last task is overtaken for ever. Throws RATE_LIMIT_EXCEEDED beyond the client's share of waiting tasks.
 */
export async function takeTurn(tx: Queryable, ownerClient: string): Promise<number> {
  const own = await tx
    .selectFrom('tasks')
    .select((row) => [
      row.fn.countAll().filterWhere('status', '=', 'pending').as('waiting'),
      row.fn.max('turn').as('last'),
    ])
    .where('ownerClient', '=', ownerClient)
    .where('status', 'in', ['pending', 'in_progress'])
    .executeTakeFirst()
  if (Number(own?.waiting) >= mostWaiting) throw tooMany()
  const front = await tx
    .selectFrom('tasks')
    .select((row) => row.fn.min('turn').as('turn'))
    .where('status', '=', 'pending')
    .executeTakeFirst()
  const next = own?.last == null ? 0 : own.last + 1
  return Math.max(next, front?.turn ?? 0)
}

const tooMany = () =>
  new Problem('RATE_LIMIT_EXCEEDED', `${mostWaiting} of your reports are waiting already`, {
    headers: { 'retry-after': retrySeconds },
  })
