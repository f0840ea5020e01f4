import type { ResourceColumn, ResourceTable } from '../../storage/resource-tables/resource-columns.ts'
import { columnType } from '../column-types.ts'
import type { Declaration } from '../declaration.ts'
import { columnName } from '../table.ts'
import { limitOf, sourceOf } from './targets.ts'

/** A table with the columns of the sums and counts that its rows show; `all` are the resources of the service. */
export function withTotals(table: ResourceTable, declaration: Declaration, all: readonly Declaration[]): ResourceTable {
  const { computed, filters, ranges, sorts } = declaration
  if (computed.totals.length === 0) return table
  const totals = computed.totals.map((total): ResourceColumn => {
    const { name, kind, schema, field } = total
    const source = sourceOf(declaration, total, all)
    return {
      name: columnName(name),
      // Not the type of a field: a field that becomes a total, or the reverse, is a changed type, which is refused.
      kind: field === null ? 'count' : `sum of ${columnType(kind).recordedAs?.(schema) ?? kind}`,
      sql: columnType(kind).sql,
      ...{ required: false, folded: false, unique: false },
      indexed: [...filters, ...ranges, ...sorts].includes(name),
      ...(source && {
        total: {
          table: source.table,
          reference: columnName(source.reference),
          column: source.field === null ? null : columnName(source.field),
          limit: String(limitOf(schema)),
        },
      }),
    }
  })
  return { ...table, columns: [...table.columns, ...totals] }
}
