import { type RawBuilder, sql } from 'kysely'
import type { CellType } from './long-read.ts'

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

const double: Field = (cell) => sql`cast(${cell} as double precision)`
const size: Field = (cell) => sql`abs(${double(cell)})`

/**
 * As JavaScript writes a double (ECMA-262, Number::toString), which differs from PostgreSQL in where exponents begin, how
 * they are padded, and in -0. Both write the fewest digits that read back as the same double; from 2^54 on, these may be
 * other digits.
 */
const number: Field = (cell) => sql`case
  when ${size(cell)} >= 1e-4 and ${size(cell)} < 1e15 then ${text(double(cell))}
  when ${double(cell)} = 0 then '0'
  when ${size(cell)} >= 1e-6 and ${size(cell)} < 1e21 then ${text(sql`cast(${text(double(cell))} as numeric)`)}
  else replace(${text(double(cell))}, 'e-0', 'e-') end`

const time: Field = (cell) => sql`nullif(${text(cell)}, '')`

const fields: Record<CellType, Field> = {
  integer: (cell) => cell,
  number,
  string: harmless,
  instant: time,
  date: time,
  // Tables keep truth as 1 or 0.
  boolean: (cell) => sql`case when cast(${cell} as integer) = 1 then 'true' when ${cell} is not null then 'false' end`,
  json: harmless,
}
