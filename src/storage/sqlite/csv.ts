import { type RawBuilder, sql } from 'kysely'
import type { CellType } from '../engine.ts'

type Field = (cell: RawBuilder<unknown>) => RawBuilder<unknown>

/**
 * Returns the expressions for a row's CSV record and for the text to check (see `sqliteSnapshot`). They quote only
 * cells with commas, because checking a whole page's text for other characters costs less than checking each cell.
 * Returns undefined if a cell is JSON, which is full of quotation marks.
 */
export function csvRecord(cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) {
  if (cells.some(({ type }) => type === 'json')) return undefined
  const texts = cells.filter(({ type }) => type === 'string').map(({ cell }) => cell)
  const csvFields = cells.map(({ cell, type }) => fields[type](cell))
  return {
    // `concat_ws` is faster than `concat` with a comma after each cell, but skips nulls, so no cell may be null.
    record: sql`concat_ws(',', ${sql.join(csvFields)})`,
    checked: texts.length === 1 ? sql`${texts[0]}` : sql`concat(${sql.join([sql`''`, ...texts])})`,
  }
}

const unquoted: Field = (cell) => sql`coalesce(${cell}, '')`

/**
 * Characters that start a formula in spreadsheet programs sort before letters, so most text needs only one comparison.
 */
const text: Field = (cell) => sql`case
  when ${cell} >= 'A' and instr(${cell}, ',') = 0 then ${cell}
  when ${cell} < 'A' and unicode(${cell}) in (9, 43, 45, 61, 64) then
    case when instr(${cell}, ',') > 0 then '"''' || ${cell} || '"' else '''' || ${cell} end
  when instr(${cell}, ',') > 0 then '"' || ${cell} || '"'
  else coalesce(${cell}, '') end`

/**
 * SQLite and JavaScript format a number identically if it is the double nearest to a decimal with at most 15 digits.
 * With more than four decimal places, SQLite may use an exponent. The most frequent case is tested first. U+001A marks
 * numbers that SQLite might format differently.
 */
const number: Field = (cell) => sql`case
  when cast(${cell} * 10000 + 0.5 as integer) / 10000.0 = ${cell} and ${cell} between 0 and 1e11 then
    case when ${cell} = cast(${cell} as integer) then cast(${cell} as integer) else ${cell} end
  when ${cell} = cast(${cell} as integer) and ${cell} between -9007199254740991 and 9007199254740991
    then cast(${cell} as integer)
  when cast(${cell} * 10000 - 0.5 as integer) / 10000.0 = ${cell} and ${cell} between -1e11 and 0 then ${cell}
  when ${cell} is not null then char(26) else '' end`

const fields: Record<CellType, Field> = {
  integer: unquoted,
  number,
  decimal: unquoted,
  string: text,
  instant: unquoted,
  date: unquoted,
  // Booleans are stored as 1 or 0.
  boolean: (cell) => sql`case when ${cell} = 1 then 'true' when ${cell} is not null then 'false' else '' end`,
  json: text,
  uuid: unquoted,
}
