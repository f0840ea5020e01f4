import type { Database, Queryable } from '../database.ts'
import type { LogEntry } from '../row-changes/recent-entries.ts'
import { insertEntry, type NewChange, rowLog } from '../row-changes/row-log.ts'
import type { ChangeLog } from './changes.ts'
import type { SharedReads } from './shared-reads.ts'

/** Returns the callbacks of group commit that log and publish what its transactions change. */
export const publishing = (
  changes: ChangeLog,
  reads: SharedReads,
  { onUnit, write, committed, drop }: PendingChanges,
) => ({
  onBegin: () => {
    // Lets reads in this transaction see all earlier transactions, including those of other threads.
    reads.end()
    changes.began()
  },
  onUnit,
  beforeCommit: write,
  onCommit: () => {
    committed()
    changes.committed()
    reads.end()
  },
  onRollback: () => {
    drop()
    changes.rolledBack()
  },
})

type PendingChanges = ReturnType<typeof pendingChanges>

/**
 * Returns the log of row changes, and the callbacks with which group commit writes, confirms or drops the pending
 * changes.
 */
export function pendingChanges(tx: Queryable, { prepare, tag }: Pick<Database, 'prepare'> & { tag: string }) {
  const pending: NewChange[] = []
  let written: LogEntry[] = []
  const insert = prepare(insertEntry(tx))
  const log = rowLog({ pendingIn: () => pending, insert: insert.in, tag })
  return {
    log,
    onUnit: () => {
      const { length } = pending
      return () => void pending.splice(length)
    },
    write: async () => {
      written = pending.length > 0 ? await log.write(tx) : []
    },
    committed: () => {
      if (pending.length > 0) log.committed(pending.splice(0), written)
    },
    drop: () => void pending.splice(0),
  }
}
