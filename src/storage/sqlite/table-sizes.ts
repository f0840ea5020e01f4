import { sql } from 'kysely'
import type { Engine, MeasuredSize } from '../engine.ts'

/**
 * The sampled pages of a B-tree: their number, the path of the last one, and the number of cells in each interior page,
 * by path. A path such as `/000/01c/` gives, in hexadecimal, the position of each page among its parent's children.
 */
type Sample = [pages: number, lastPath: string, interior: [path: string, cells: number][]]

/** Maximum number of pages that are read from each B-tree. */
const maxSampledPages = 2_000

/**
 * Measures tables and indexes with the virtual table `dbstat`, which visits the pages of a B-tree depth first,
 * beginning at its root. For a large B-tree, reads only the first pages and extrapolates.
 */
export const sqliteTableSizes: Engine['tableSizes'] = {
  query: sql`(
    select table_name, cast(pages ->> 0 as integer) as bytes,
      iif(type = 'table', coalesce(cast(pages ->> 4 as integer), 0), 0) as rows,
      json_array(pages -> 1, pages ->> 2, pages -> 3) as sample
    from (
      select tbl_name as table_name, type, (
        select json_array(sum(pgsize), count(*), max(path),
          json_group_array(json_array(path, ncell)) filter (where pagetype = 'internal'),
          sum(ncell) filter (where pagetype = 'leaf' or schema.sql like '%without rowid%'))
        from (
          select path, pagetype, ncell, pgsize from dbstat where name = schema.name limit ${sql.lit(maxSampledPages)})
      ) as pages
      from sqlite_schema as schema where rootpage > 0
    ))`,
  sizeOf: ({ bytes, rows, sample }: MeasuredSize) => {
    const [pages, lastPath, interior]: Sample = JSON.parse(sample ?? '[0, "", []]')
    if (pages < maxSampledPages) return { bytes, rows }
    const share = shareUpTo(lastPath, new Map(interior))
    return { bytes: Math.round(bytes / share), rows: Math.round(rows / share) }
  },
}

/** Returns the share of a B-tree's pages up to this path, assuming that all subtrees of a page have the same size. */
function shareUpTo(lastPath: string, cells: ReadonlyMap<string, number>): number {
  let [share, width, path] = [0, 1, '/']
  // An overflow page has the path of its leaf, and a suffix that begins with `+`.
  for (const position of lastPath.split('/').slice(1, -1)) {
    width /= (cells.get(path) ?? 0) + 1
    share += Number.parseInt(position, 16) * width
    path += `${position}/`
  }
  return share + width
}
