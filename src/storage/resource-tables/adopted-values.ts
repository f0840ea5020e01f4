import { type RawBuilder, sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { maxId } from '../ids.ts'
import { type AdoptedTable, nameOf, systemColumns } from './adopted-columns.ts'
import { comparedColumn } from './ddl.ts'
import { countRows, rowCount } from './mismatch.ts'
import { fieldOf, type ResourceColumn } from './resource-columns.ts'

const pageRows = 500
const maxExamples = 3

type Row = Readonly<Record<string, unknown>>

/** Rows with the same problem: their number, and the first few ids. */
interface Found {
  rows: number
  ids: number[]
}

/**
 * Returns a line for each problem with the stored values, with the number of affected rows and the ids of the first
 * few.
 */
export async function invalidValues(tx: Queryable, of: AdoptedTable): Promise<string[]> {
  const { table, isNew } = of
  const outside = sql`id < 1 or id > ${maxId}`
  const wrongIds = isNew ? await countRows(tx, table.name, outside) : 0
  if (wrongIds > 0) return [`id: must be from 1 to ${maxId}, in ${rowCount(wrongIds)}`]
  const problems = new Map<string, Found>()
  const readPage = pageReader(tx, of)
  for (let after = 0; ; ) {
    const rows = await readPage(after)
    for (const row of rows) for (const problem of problemsOf(of, row)) add(problems, problem, Number(row.id))
    if (rows.length < pageRows) break
    after = Number(rows.at(-1)?.id)
  }
  return [...problems].map(
    ([problem, { rows, ids }]) =>
      `${problem}, in ${rowCount(rows)}: id ${ids.join(', ')}${rows > ids.length ? ', …' : ''}`,
  )
}

function add(problems: Map<string, Found>, problem: string, id: number): void {
  const found = problems.get(problem) ?? { rows: 0, ids: [] }
  found.rows += 1
  if (found.ids.length < maxExamples) found.ids.push(id)
  problems.set(problem, found)
}

function pageReader(tx: Queryable, { table, details, isNew }: AdoptedTable) {
  const system = isNew ? systemColumns.map(({ name }) => name).filter((name) => details.has(name)) : []
  const fields = table.columns.filter(({ name }) => details.has(name)).map(readColumn)
  const columns = sql.join([sql`id`, ...system.map((name) => sql.ref(name)), ...fields])
  return async (after: number) => {
    const page = sql<Row>`select ${columns} from ${sql.ref(table.name)} where id > ${after} order by id limit ${pageRows}`
    return (await page.execute(tx.withoutPlugins())).rows
  }
}

/** Reads decimals as text, because they may have more digits than a JavaScript number can represent. */
const readColumn = ({ name, kind }: ResourceColumn): RawBuilder<unknown> =>
  kind.startsWith('decimal') ? sql`cast(${sql.ref(name)} as text) as ${sql.ref(name)}` : sql.ref(name)

function problemsOf({ table, details, fresh, isNew }: AdoptedTable, row: Row): string[] {
  const stored = table.columns.filter(({ name }) => details.has(name))
  const cells = Object.fromEntries(stored.map((column) => [fieldOf(column), row[column.name]]))
  const columns = new Map(fresh.map((column) => [fieldOf(column), column]))
  const own = (table.overlay?.check(cells) ?? []).flatMap(({ field, message }) => {
    const column = columns.get(field)
    return column ? [`${nameOf(column)}: ${message}`] : []
  })
  const system = isNew ? systemColumns.filter(({ name }) => details.has(name) && !isSystemValue(name, row[name])) : []
  return [...own, ...system.map(({ name, expected }) => `${name}: must be ${expected}`)]
}

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

function isSystemValue(name: string, value: unknown): boolean {
  if (name.endsWith('_at')) return typeof value === 'string' && instant.test(value)
  const number = Number(value)
  return value !== null && Number.isSafeInteger(number) && number >= (name === 'revision' ? 1 : 0)
}

/**
 * Returns a line for each `unique` declaration that existing rows violate. Call it after the companion columns are
 * filled.
 */
export async function duplicateValues(tx: Queryable, of: AdoptedTable): Promise<string[]> {
  const { table, fresh } = of
  const single = fresh.filter(({ unique }) => unique).map((column) => ({ name: nameOf(column), columns: [column] }))
  const byField = new Map(of.adopted.map((column) => [fieldOf(column), column]))
  const tuples = (table.tuples ?? []).flatMap(({ fields }) => {
    const columns = fields.flatMap((field) => byField.get(field) ?? [])
    const isChecked = columns.length === fields.length && columns.some((column) => fresh.includes(column))
    return isChecked ? [{ name: columns.map(nameOf).join(', '), columns }] : []
  })
  const lines: string[] = []
  for (const { name, columns } of [...single, ...tuples]) {
    const { rows, ids } = await sharedRows(tx, table.name, columns)
    const what = columns.length > 1 ? 'must be unique together' : 'must be unique'
    if (rows > 0)
      lines.push(
        `${name}: ${what}, but ${rowCount(rows)} share a value: id ${ids.join(' and ')}${rows > 2 ? ', …' : ''}`,
      )
  }
  return lines
}

/** Returns the number of rows that have the same values as another row, and the ids of two of them. */
async function sharedRows(tx: Queryable, table: string, columns: readonly ResourceColumn[]) {
  const present = columns.map(({ name }) => sql`${sql.ref(name)} is not null`)
  const groups = sql`
    select count(*) as alike, min(id) as first_id, max(id) as last_id
    from ${sql.ref(table)} where ${sql.join(present, sql` and `)}
    group by ${sql.join(columns.map((column) => sql.ref(comparedColumn(column))))} having count(*) > 1`
  const counted = await sql<{ rows: number | null }>`select sum(alike) as rows from (${groups}) as alike_rows`.execute(
    tx,
  )
  const example = await sql<{ firstId: number; lastId: number }>`${groups} order by first_id limit 1`.execute(tx)
  const [found] = example.rows
  return { rows: Number(counted.rows[0]?.rows ?? 0), ids: found ? [found.firstId, found.lastId] : [] }
}
