import { type RawBuilder, sql } from 'kysely'
import type { CellType } from '../engine.ts'

type Field = (cell: RawBuilder<unknown>) => RawBuilder<unknown>

/**
 * Returns cell expressions that make COPY write the same CSV as the service, with quotes only where needed and empty
 * fields for null. Returns undefined for a single text column, because COPY would quote `\.` in it.
 */
export function csvFields(cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) {
  if (cells.length === 1 && cells[0]?.type === 'string') return undefined
  return cells.map(({ cell, type }) => fields[type](cell))
}

const text: Field = (cell) => sql`cast(${cell} as text)`

/** Characters that start a formula in spreadsheet programs; all of them sort before letters. */
const formulaStarts = sql.raw(Array.from('\t\r+-=@', (start) => start.charCodeAt(0)).join(', '))

/**
 * Prefixes formulas with an apostrophe, and replaces empty text, which COPY would quote, with null. Text that starts
 * with a letter needs only one comparison.
 */
const withoutFormula: Field = (cell) => sql`case
  when ${text(cell)} collate "C" >= 'A' then ${text(cell)}
  when ascii(${text(cell)}) in (${formulaStarts}) then '''' || ${text(cell)}
  else nullif(${text(cell)}, '') end`

/** Writes the shortest text that parses to the same double, as JavaScript does; only the exponent thresholds differ. */
const number: Field = (cell) => sql`cast(${cell} as double precision)`

const fields: Record<CellType, Field> = {
  integer: (cell) => cell,
  number,
  decimal: text,
  string: withoutFormula,
  instant: text,
  date: text,
  // Booleans are stored as 1 or 0.
  boolean: (cell) => sql`case when cast(${cell} as integer) = 1 then 'true' when ${cell} is not null then 'false' end`,
  json: withoutFormula,
  uuid: text,
}
