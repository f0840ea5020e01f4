import { type RawBuilder, sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { limitExpression } from '../rows/page-query.ts'
import { ScanRefused } from '../scans/scan.ts'
import { type SqliteTextIndexOptions, textIndexBuilder, type Unindexed } from '../text-index/builder.ts'
import { type Candidates, type Searched, type TextIndex, trigramQuery } from '../text-index/text-index.ts'

export const unindexedAtMost: Unindexed = { newRows: 10_000, changed: 1_000 }
/** With this many candidates or more, rows are read in sort order, because a page fills up quickly. */
const fewCandidates = 5_000
const retryMs = 60_000

interface State extends Unindexed {
  /** Null before the first build, and after the table was dropped along with its triggers. */
  token: string | null
}

/**
 * Finds candidates by FTS5 trigrams in a file next to the database. A thread builds the index when a large table is
 * searched. The index may lag behind, so rows after `indexed_to` and rows that triggers have added to `search_changes`
 * are also candidates. The index is valid while it contains the same token as the database (see
 * `text-index/thread.ts`).
 */
export function sqliteTextIndex(options: SqliteTextIndexOptions): TextIndex {
  const { read, setTimer, onError, unindexed: limits } = options
  const isBehind = ({ token, newRows, changed }: State) =>
    newRows > limits.newRows || (token !== null && changed > limits.changed)
  const currentState = (searched: Searched) => readState(read, searched, limits.changed)
  const builder = textIndexBuilder(options)
  let building: Promise<void> | null = null
  let mayBuild = true
  let cancelRetry = () => {}
  const onFailure = (error: unknown) => {
    mayBuild = false
    cancelRetry = setTimer(retryMs, () => {
      mayBuild = true
    })
    onError(error)
  }
  const build = (searched: Searched) => {
    if (building !== null || !mayBuild) return
    const isStillBehind = async () => isBehind(await currentState(searched))
    building = builder.build(searched, isStillBehind).catch(onFailure)
    building.finally(() => {
      building = null
    })
  }
  return {
    candidates: async (searched, text, requester) => {
      const state = await currentState(searched)
      if (isBehind(state)) build(searched)
      const match = trigramQuery(text)
      if (match === undefined || state.token === null) return undefined
      const found: Candidates = { match, condition: (position) => isOneOf(searched, sql`${position}`) }
      const countQuery = countQueryFor(searched, match).compile(read)
      const result = options.scan<Counted>({ compile: () => countQuery }, requester)
      const [counted] = await result.catch((error) => {
        if (error instanceof ScanRefused) throw error
        return []
      })
      // If the index is unreadable or does not belong to the database, it is rebuilt.
      if (!counted?.belongs) build(searched)
      return counted?.belongs && counted.count < fewCandidates ? found : undefined
    },
    close: async () => {
      mayBuild = false
      builder.stop()
      await building
      cancelRetry()
    },
  }
}

/** Reads the index token and counts new rows and pending changes; stops counting changes at `maxChanged + 1`. */
async function readState(read: Queryable, { table }: Searched, maxChanged: number): Promise<State> {
  const triggers = ['updated', 'deleted'].map((change) => `${table}_search_${change}`)
  const { rows } = await sql<{ token: string | null; newest: number | null; indexedTo: number; changed: number }>`
    select
      (select token from search_indexes where name = ${table} and 2 =
        (select count(*) from sqlite_schema where type = 'trigger' and name in (${sql.join(triggers)}))) as token,
      (select indexed_to from search_indexes where name = ${table}) as indexed_to,
      (select max(rowid) from ${sql.table(table)}) as newest,
      (select count(*) from (select 1 from search_changes where name = ${table}
        limit ${limitExpression(maxChanged + 1)})) as changed`.execute(read)
  const { token = null, newest = 0, indexedTo = 0, changed = 0 } = rows[0] ?? {}
  return { token, newRows: Number(newest) - (token === null ? 0 : indexedTo), changed }
}

/** Selects the number of the last row that the index covers; null if the index does not belong to the database. */
const indexedTo = ({ table, columns }: Searched) => sql`
  (select own.indexed_to from search_indexes as own join search.indexes as its on its.token = own.token
    where own.name = ${sql.lit(table)} and its.name = own.name and its.columns = ${sql.lit(columns.join())})`

/** Selects the numbers (`rowid`) of candidates, or of all rows if the index does not belong to the database. */
function rowsOf(searched: Searched, match: RawBuilder<unknown>) {
  const { table } = searched
  const index = `${table}_text`
  return sql`
    select rowid as id from ${sql.id('search', index)} where ${sql.id(index)} match ${match}
    union all select id from search_changes where name = ${sql.lit(table)}
    union all select rowid from ${sql.table(table)} where rowid > coalesce(${indexedTo(searched)}, 0)`
}

const isOneOf = (searched: Searched, match: RawBuilder<unknown>) =>
  sql<boolean>`${sql.ref(`${searched.table}.rowid`)} in (${rowsOf(searched, match)})`

interface Counted {
  count: number
  /** 1 if the index belongs to the database, otherwise 0. */
  belongs: number
}

const countQueryFor = (searched: Searched, match: string) => sql<Counted>`
  select count(*) as count, ${indexedTo(searched)} is not null as belongs
  from (select id from (${rowsOf(searched, sql`${match}`)}) limit ${limitExpression(fewCandidates)})`
