import { type RawBuilder, sql } from 'kysely'
import type { CellType } from '../engine.ts'

type Field = (cell: RawBuilder<unknown>) => RawBuilder<unknown>

/**
 * Expressions for COPY whose CSV is byte for byte the service's own: COPY quotes where needed and leaves null empty.
 * Undefined for a single text column, where COPY would quote `\.`.
 */
export function csvFields(cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) {
  if (cells.length === 1 && cells[0]?.type === 'string') return undefined
  return cells.map(({ cell, type }) => fields[type](cell))
}

const text: Field = (cell) => sql`cast(${cell} as text)`

/** Characters that spreadsheets take for the start of a formula; all of them sort before the letters. */
const formulaStarts = sql.raw(Array.from('\t\r+-=@', (start) => start.charCodeAt(0)).join(', '))

/**
 * COPY would quote an empty text, to distinguish it from null. One comparison is enough for text that starts with a letter.
 */
const harmless: Field = (cell) => sql`case
  when ${text(cell)} collate "C" >= 'A' then ${text(cell)}
  when ascii(${text(cell)}) in (${formulaStarts}) then '''' || ${text(cell)}
  else nullif(${text(cell)}, '') end`

/** The shortest text that reads back as the same double, as in JavaScript; the server decides where exponents begin. */
const number: Field = (cell) => sql`cast(${cell} as double precision)`

const fields: Record<CellType, Field> = {
  integer: (cell) => cell,
  number,
  string: harmless,
  instant: text,
  date: text,
  // Booleans are stored as 1 or 0.
  boolean: (cell) => sql`case when cast(${cell} as integer) = 1 then 'true' when ${cell} is not null then 'false' end`,
  json: harmless,
}
