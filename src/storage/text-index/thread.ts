import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { lowerPriority } from '../low-priority.ts'
import { indexPathOf } from '../sqlite/path.ts'
import type { FromIndexThread, IndexStep, ToIndexThread } from './builder.ts'

/** The thread that maintains a SQLite database's text index, in a separate file that can be rebuilt at any time. */
const { path } = workerData as { path: string }
lowerPriority()
const lockWaitMs = 5_000
const rowsPerStep = 20_000
const changesPerStep = 1_000

const source = new DatabaseSync(path, { readOnly: true, timeout: lockWaitMs })
const index = new DatabaseSync(indexPathOf(path), { timeout: lockWaitMs })
source.exec('pragma cache_size = -4000; pragma trusted_schema = off')
// If the machine crashes and commits are lost, the tokens differ and the index is rebuilt.
index.exec('pragma journal_mode = wal; pragma synchronous = normal; pragma cache_size = -8000')
index.exec('create table if not exists indexes (name text primary key, columns text not null, token text not null)')

type Step = Extract<ToIndexThread, object>['step']

/** Adds the next rows and changes to the index in a transaction, without committing it. */
function prepare({ table, columns, token }: Step): IndexStep {
  index.exec('begin immediate')
  source.exec('begin')
  try {
    const from = startRow({ table, columns, token })
    const text = columns.map((column) => `coalesce("${column}", '')`).join(' || char(10) || ')
    const add = index.prepare(`insert into "${table}_text" (rowid, text) values (?, ?)`)
    const remove = index.prepare(`delete from "${table}_text" where rowid = ?`)
    const rows = source
      .prepare(
        `select rowid as id, ${text} as text from "${table}" where rowid > ? order by rowid limit ${rowsPerStep}`,
      )
      .all(from) as { id: number; text: string }[]
    for (const { id, text } of rows) add.run(id, text)
    const indexedTo = rows.at(-1)?.id ?? from
    const changes = source
      .prepare(
        `select change, id, (select ${text} from "${table}" as t where t.rowid = c.id) as text
         from search_changes as c where name = ? order by change limit ${changesPerStep}`,
      )
      .all(table) as { change: number; id: number; text: string | null }[]
    for (const { id, text } of changes) {
      // Skip rows after `from`: this step or a later one indexes them in their current state.
      if (id > from) continue
      remove.run(id)
      if (text !== null) add.run(id, text)
    }
    return { indexedTo, changedTo: changes.at(-1)?.change ?? 0 }
  } finally {
    source.exec('commit')
  }
}

/** Returns the last row in the index; if the index does not belong to the database, creates a new one and returns 0. */
function startRow({ table, columns, token }: Step): number {
  const recorded = source.prepare('select token, indexed_to from search_indexes where name = ?').get(table)
  const current = index.prepare('select token, columns from indexes where name = ?').get(table)
  const belongs = recorded !== undefined && recorded.token === current?.token && current?.columns === columns.join()
  if (!belongs) {
    index.exec(`drop table if exists "${table}_text"`)
    index.exec(`create virtual table "${table}_text" using fts5(text,
      content = '', contentless_delete = 1, detail = none, tokenize = 'trigram case_sensitive 1')`)
  }
  index
    .prepare('insert or replace into indexes (name, columns, token) values (?, ?, ?)')
    .run(table, columns.join(), token)
  return belongs ? Number(recorded.indexed_to) : 0
}

function handle(message: ToIndexThread): FromIndexThread {
  try {
    if (message !== 'commit') return { prepared: prepare(message.step) }
    index.exec('commit')
    return 'committed'
  } catch (error) {
    if (index.isTransaction) index.exec('rollback')
    return { error: String(error) }
  }
}

parentPort?.on('message', (message: ToIndexThread) => parentPort?.postMessage(handle(message)))
