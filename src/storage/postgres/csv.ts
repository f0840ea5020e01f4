import { type RawBuilder, sql } from 'kysely'
import type { CellType } from '../engine.ts'

type Field = (cell: RawBuilder<unknown>) => RawBuilder<unknown>

/**
 * Expressions with which COPY writes CSV identical to that of the service: it quotes where needed and leaves null empty.
 * Undefined for a single text column, where COPY would quote `\.`.
 */
export function csvFields(cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) {
  if (cells.length === 1 && cells[0]?.type === 'string') return undefined
  return cells.map(({ cell, type }) => fields[type](cell))
}

const text: Field = (cell) => sql`cast(${cell} as text)`

/** Characters that start a formula in spreadsheets; all of them sort before letters. */
const formulaStarts = sql.raw(Array.from('\t\r+-=@', (start) => start.charCodeAt(0)).join(', '))

/**
 * Null instead of empty text, which COPY would quote; a quote mark before formulas. Text that starts with a letter needs
 * only one comparison.
 */
const withoutFormula: Field = (cell) => sql`case
  when ${text(cell)} collate "C" >= 'A' then ${text(cell)}
  when ascii(${text(cell)}) in (${formulaStarts}) then '''' || ${text(cell)}
  else nullif(${text(cell)}, '') end`

/** The shortest text that reads back as the same double, as in JavaScript; PostgreSQL starts using exponents elsewhere. */
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
}
