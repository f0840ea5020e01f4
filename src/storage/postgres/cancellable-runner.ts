import { setTimeout as wait } from 'node:timers/promises'
import type pg from 'pg'
import type { ScannerOptions } from '../scans/scanner.ts'
import { withoutNul } from './statements.ts'

const cancelEveryMs = 100

/** Runs statements on one pool; when the signal is aborted, cancels the statement through a second pool. */
export const cancellableRunner =
  (pool: pg.Pool, canceller: pg.Pool): ScannerOptions['execute'] =>
  async ({ sql: text, parameters }, signal) => {
    const client = (await pool.connect()) as pg.PoolClient & { processID: number }
    let [ended, cancelled] = [false, Promise.resolve()]
    const cancel = async () => {
      // Repeated, because a cancellation that arrives before the statement has started has no effect.
      for (; !ended; await wait(cancelEveryMs)) {
        await canceller.query('select pg_cancel_backend($1)', [client.processID])
      }
    }
    const stop = () => {
      // If the cancellation fails, for example because no connection is free, the server's statement timeout applies.
      cancelled = cancel().catch(() => {})
    }
    signal.addEventListener('abort', stop)
    try {
      signal.throwIfAborted()
      return (await client.query(text, withoutNul(text, [...parameters]))).rows
    } finally {
      ended = true
      signal.removeEventListener('abort', stop)
      // Awaited, so that a late cancellation cannot affect the next statement on this connection.
      await cancelled
      client.release()
    }
  }
