import { type RawBuilder, sql } from 'kysely'
import type { CellType } from '../engine.ts'

type Field = (cell: RawBuilder<unknown>) => RawBuilder<unknown>

/**
 * What COPY is to be given so that its CSV has the bytes of the service's own: it quotes what needs quotes, and leaves
 * null empty. Undefined for text that is alone in its record, where COPY would quote `\.`.
 */
export function csvFields(cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) {
  if (cells.length === 1 && cells[0]?.type === 'string') return undefined
  return cells.map(({ cell, type }) => fields[type](cell))
}

const text: Field = (cell) => sql`cast(${cell} as text)`

/** What spreadsheets take for the start of a formula; all of it lies before the letters. */
const formulaStarts = sql.raw(Array.from('\t\r+-=@', (start) => start.charCodeAt(0)).join(', '))

/** COPY would quote an empty text, to tell it from null. Letters are known at one look, and never looked at twice. */
const harmless: Field = (cell) => sql`case
  when ${text(cell)} collate "C" >= 'A' then ${text(cell)}
  when ascii(${text(cell)}) in (${formulaStarts}) then '''' || ${text(cell)}
  else nullif(${text(cell)}, '') end`

/** Its shortest text that reads back as the same double, as JavaScript's; where exponents begin is the server's matter. */
const number: Field = (cell) => sql`cast(${cell} as double precision)`

const fields: Record<CellType, Field> = {
  integer: (cell) => cell,
  number,
  string: harmless,
  instant: text,
  date: text,
  // Tables keep truth as 1 or 0.
  boolean: (cell) => sql`case when cast(${cell} as integer) = 1 then 'true' when ${cell} is not null then 'false' end`,
  json: harmless,
}
