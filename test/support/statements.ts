import { DatabaseSync } from 'node:sqlite'
import type { TestContext } from 'node:test'
import { CompiledQuery } from 'kysely'
import pg from 'pg'
import type { Database } from '../../src/storage/database.ts'

/** A statement that the service prepared or sent, with its parameter values if known. */
export interface Statement {
  text: string
  values: readonly unknown[]
}

type Spy = Pick<TestContext['mock'], 'method'>

/**
 * Records each distinct statement that this process prepares or sends from now on, except in scan threads. Must be
 * called before the database is opened.
 */
export function noteStatements(mock: Spy): Map<string, Statement> {
  const seen = new Map<string, Statement>()
  const note = (text: unknown, values: unknown) => {
    if (typeof text !== 'string' || seen.has(text)) return
    seen.set(text, { text, values: Array.isArray(values) ? values : [] })
  }
  const { prepare } = DatabaseSync.prototype
  mock.method(DatabaseSync.prototype, 'prepare', function (this: DatabaseSync, text: string) {
    note(text, [])
    return prepare.call(this, text)
  })
  const { query } = pg.Client.prototype as { query: (...given: unknown[]) => unknown }
  mock.method(pg.Client.prototype, 'query', function (this: pg.Client, ...given: unknown[]) {
    const [first, values] = given
    const config = first as { text?: string; values?: unknown[] } | null
    if (typeof first === 'string') note(first, values)
    else note(config?.text, config?.values ?? values)
    return query.apply(this, given)
  })
  return seen
}

interface Node {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows'?: number
  'Actual Loops'?: number
  'Rows Removed by Filter'?: number
  'Plan Rows': number
  Plans?: Node[]
}

/**
 * The maximum number of rows that a step of a query plan may read. A page needs 200 rows, and a replay examines more.
 */
const maxMet = 2_500

/** Tables that clients cannot make large, because only operators add rows or the number of rows is fixed. */
const small = new Set(['sqlite_schema', 'settings', 'signing_keys', 'audit_head', 'migrations', 'resource_tables'])

/** Returns why the engine's plan for a statement is unacceptable; undefined if it reads a bounded number of rows. */
export function judge(db: Database, statement: Statement): Promise<string | undefined> {
  return db.engine.name === 'sqlite' ? judgeSqlite(db, statement) : judgePostgres(db, statement)
}

const isWhole = (text: string) => !/ where (?!(1 = 1|"revoked_at" is null) order by )/.test(text)

async function judgeSqlite(db: Database, { text }: Statement): Promise<string | undefined> {
  const explain = CompiledQuery.raw(`explain query plan ${text}`)
  const { rows } = await db.read.withoutPlugins().executeQuery<{ detail: string }>(explain)
  const details = rows.map(({ detail }) => detail)
  const plan = details.join('; ')
  for (const detail of details) {
    const [, table = ''] = /^SCAN (\w+)/.exec(detail) ?? []
    if (small.has(table)) return undefined
    const isTable = table !== '' && !/^(CONSTANT|json_each|a|counted|found|looked|ranked|w)$/.test(table)
    const readsOn = isWhole(text) && / limit /.test(text) && !/TEMP B-TREE/.test(plan)
    if (isTable && !readsOn) return `scans ${table}: ${plan}`
    if (/USE TEMP B-TREE/.test(detail)) return `sorts: ${plan}`
  }
  return unserved(text, plan)
}

/**
 * Returns a message about conditions that the index does not cover, or undefined if there are none. Such a condition
 * can make the engine read any number of rows to fill a page.
 */
function unserved(text: string, plan: string): string | undefined {
  const [, table, conditions = ''] = / from "(\w+)" where (.*) order by .* limit /.exec(text) ?? []
  if (table === undefined || / from /.test(conditions)) return undefined
  const columns = [...conditions.matchAll(/"?(\w+)"? = \?/g)].map(([, name]) => name)
  const missing = columns.filter((name) => !plan.includes(`${name}=?`))
  const states = [...conditions.matchAll(/"status" = '(\w+)'/g)].map(([, state]) => state as string)
  const unindexed = states.filter((state) => !plan.includes(`_${state}`) && !plan.includes('_waiting'))
  if (missing.length === 0 && unindexed.length === 0) return undefined
  return `looks through rows for ${[...missing, ...unindexed]}: ${plan}`
}

async function judgePostgres(db: Database, { text, values }: Statement): Promise<string | undefined> {
  const isRead = /^\s*select/i.test(text) && !/ for no key update/.test(text)
  const explain = CompiledQuery.raw(`explain (${isRead ? 'analyze, ' : ''}format json) ${text}`, [...values])
  const { rows } = await db.read.withoutPlugins().executeQuery<{ 'QUERY PLAN': { Plan: Node }[] }>(explain)
  const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]
  for (const node of nodesOf(rows[0]?.['QUERY PLAN'][0]?.Plan as Node)) {
    const table = node['Relation Name'] ?? ''
    const loops = node['Actual Loops'] ?? 1
    const met = ((node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0)) * loops
    if (met > maxMet) return `${node['Node Type']} of ${table} meets ${met} rows`
    const isSeq = node['Node Type'] === 'Seq Scan' && !isRead && !small.has(table)
    if (isSeq && node['Plan Rows'] > maxMet) return `scans ${table}`
  }
  return undefined
}
