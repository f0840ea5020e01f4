import { type Cursor, decodeCursor, encodeCursor, limitOf, listMark } from './paging.ts'

/** What a list is asked for. */
export interface PageQuery {
  limit?: number
  cursor?: string
}

interface PageRules<Row> {
  /** The filters: a cursor is good for the list it came from only. */
  of: unknown
  /** The values by which the list is sorted, unique together. */
  keyOf: (row: Row) => Cursor['after']
  /** Up to `count` rows behind the given place, or from the start; walking backwards, the nearest first. */
  rowsAfter: (after: Cursor['after'] | null, backwards: boolean, count: number) => Promise<Row[]>
}

/** One page of a list with the cursors of its neighbours; rows neither skip nor repeat while others are added. */
export async function keysetPage<Row>(query: PageQuery, length: number, { of, keyOf, rowsAfter }: PageRules<Row>) {
  const limit = limitOf(query.limit)
  const mark = listMark(of)
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, length) : null
  const backwards = cursor?.backwards ?? false
  const found = await rowsAfter(cursor?.after ?? null, backwards, limit + 1)
  const more = found.length > limit
  const rows = backwards ? found.slice(0, limit).reverse() : found.slice(0, limit)
  const [first, last] = [rows[0], rows.at(-1)]
  const at = (row: Row, backwards: boolean) => encodeCursor(mark, { after: keyOf(row), backwards })
  const cursors = {
    ...(last !== undefined && (backwards || more) && { next: at(last, false) }),
    ...(first !== undefined && (backwards ? more : cursor !== null) && { prev: at(first, true) }),
  }
  return { rows, cursors }
}
