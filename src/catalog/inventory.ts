import type { ReportKind } from '../reports/report-types.ts'

/** The name and lower bound of each price band. */
const bands: [from: number, name: string][] = [
  [0, '0 to 9.99'],
  [10, '10 to 49.99'],
  [50, '50 to 99.99'],
  [100, '100 to 499.99'],
  [500, '500 to 999.99'],
  [1_000, '1000 and more'],
]

const money = (expression: string) => `round(cast(${expression} as numeric), 2)`
const none = 'cast(null as double precision)'

const genres = `
  select 1 as part, coalesce(genre_key, '') as place, 'genre' as dimension,
    coalesce(min(genre), '(none)') as name, count(*) as items,
    ${none} as least, ${none} as average, ${none} as most, ${none} as total
  from books group by coalesce(genre_key, '')`

const banded = bands
  .toReversed()
  .map(([from, name], at) => `when price >= ${from} then '${bands.length - at}${name}'`)
  .join(' ')

const prices = `
  select 2 as part, substr(band, 1, 1) as place, 'priceBand' as dimension, substr(band, 2) as name, count(*) as items,
    ${money('min(price)')} as least, ${money('avg(price)')} as average,
    ${money('max(price)')} as most, ${money('sum(price)')} as total
  from (select case ${banded} end as band, price from products) as priced group by band`

/** A report on the number of books per genre, and on the number and prices of products per price band. */
export const inventory: ReportKind = {
  name: 'inventory',
  title: 'Inventory',
  scope: null,
  columns: [
    { name: 'dimension', type: 'string', sql: 'dimension' },
    { name: 'name', type: 'string', sql: 'name' },
    { name: 'items', type: 'integer', sql: 'items' },
    { name: 'lowestPrice', type: 'number', sql: 'least' },
    { name: 'averagePrice', type: 'number', sql: 'average' },
    { name: 'highestPrice', type: 'number', sql: 'most' },
    { name: 'totalPrice', type: 'number', sql: 'total' },
  ],
  from: `(${genres} union all ${prices}) as inventory`,
  key: ['part', 'place'],
  filters: [{ name: 'dimension', type: 'string', column: 'dimension', op: '=', folded: false }],
}
