import { type RawBuilder, sql } from 'kysely'
import type { CellType } from '../engine.ts'

type Field = (cell: RawBuilder<unknown>) => RawBuilder<unknown>

/**
 * The cells of a row as a record of CSV, and its text to look at (`sqliteSnapshot`): SQLite quotes for commas alone, since each
 * further look at each text would cost more than one look at the text of a whole page. Undefined for JSON, which is
 * full of quotes.
 */
export function csvRecord(cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) {
  if (cells.some(({ type }) => type === 'json')) return undefined
  const texts = cells.filter(({ type }) => type === 'string').map(({ cell }) => cell)
  const shown = cells.map(({ cell, type }) => fields[type](cell))
  return {
    // Quicker than to give each comma to `concat`; it leaves out nulls, and so none is given to it.
    record: sql`concat_ws(',', ${sql.join(shown)})`,
    looked: texts.length === 1 ? sql`${texts[0]}` : sql`concat(${sql.join([sql`''`, ...texts])})`,
  }
}

const bare: Field = (cell) => sql`coalesce(${cell}, '')`

/** What spreadsheets take for the start of a formula lies before the letters, which are known at one look. */
const text: Field = (cell) => sql`case
  when ${cell} >= 'A' and instr(${cell}, ',') = 0 then ${cell}
  when ${cell} < 'A' and unicode(${cell}) in (9, 43, 45, 61, 64) then
    case when instr(${cell}, ',') > 0 then '"''' || ${cell} || '"' else '''' || ${cell} end
  when instr(${cell}, ',') > 0 then '"' || ${cell} || '"'
  else coalesce(${cell}, '') end`

/**
 * The text is JavaScript's where the number is the nearest one to a decimal of at most 15 digits: both write just those.
 * Beyond four decimals SQLite begins an exponent. What most numbers are is looked for first. U+001A stands for a number
 * that SQLite might write otherwise.
 */
const number: Field = (cell) => sql`case
  when cast(${cell} * 10000 + 0.5 as integer) / 10000.0 = ${cell} and ${cell} between 0 and 1e11 then
    case when ${cell} = cast(${cell} as integer) then cast(${cell} as integer) else ${cell} end
  when ${cell} = cast(${cell} as integer) and ${cell} between -9007199254740991 and 9007199254740991
    then cast(${cell} as integer)
  when cast(${cell} * 10000 - 0.5 as integer) / 10000.0 = ${cell} and ${cell} between -1e11 and 0 then ${cell}
  when ${cell} is not null then char(26) else '' end`

const fields: Record<CellType, Field> = {
  integer: bare,
  number,
  string: text,
  instant: bare,
  date: bare,
  // Tables keep truth as 1 or 0.
  boolean: (cell) => sql`case when ${cell} = 1 then 'true' when ${cell} is not null then 'false' else '' end`,
  json: text,
}
