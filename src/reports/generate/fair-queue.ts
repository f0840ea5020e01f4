import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'

/** Maximum number of waiting tasks per client. */
export const maxWaitingReports = 100

/**
 * Maximum number of waiting tasks across all clients. Accepted tasks must be completed, and a backlog of this size
 * already takes hours.
 */
export const maxBacklog = 10_000

const retrySeconds = '15'

/**
 * Returns the queue position of a client's next task by start-time fair queueing: after the client's own tasks, but not
 * after other clients' backlogs. Each of n waiting clients gets every n-th position, and no task is overtaken forever.
 * Throws RATE_LIMIT_EXCEEDED if the client has too many waiting tasks, and SERVICE_UNAVAILABLE if all clients together
 * have too many.
 */
export async function nextPosition(tx: Queryable, ownerClient: string): Promise<number> {
  const own = await tx
    .selectFrom('tasks')
    .select((row) => [
      row.fn.countAll().filterWhere('status', '=', 'pending').as('waiting'),
      row.fn.max('turn').as('last'),
    ])
    .where('ownerClient', '=', ownerClient)
    .where('status', 'in', ['pending', 'in_progress'])
    .executeTakeFirst()
  if (Number(own?.waiting) >= maxWaitingReports) throw tooMany()
  await refuseBeyondBacklog(tx)
  const front = await tx
    .selectFrom('tasks')
    .select((row) => row.fn.min('turn').as('turn'))
    .where('status', '=', 'pending')
    .executeTakeFirst()
  const next = own?.last == null ? 0 : own.last + 1
  return Math.max(next, front?.turn ?? 0)
}

/** Throws if too many tasks are waiting. Needs a single index scan, which stops at the limit. */
async function refuseBeyondBacklog(tx: Queryable): Promise<void> {
  const pending = tx.selectFrom('tasks').select('turn').where('status', '=', 'pending')
  const beyond = await pending
    .limit(1)
    .offset(maxBacklog - 1)
    .executeTakeFirst()
  if (beyond === undefined) return
  throw new Problem('SERVICE_UNAVAILABLE', 'Too many reports are already waiting: try again later', {
    headers: { 'retry-after': retrySeconds },
  })
}

const tooMany = () =>
  new Problem(
    'RATE_LIMIT_EXCEEDED',
    `${maxWaitingReports} of your reports are already waiting, the maximum: try again later`,
    {
      headers: { 'retry-after': retrySeconds },
    },
  )
