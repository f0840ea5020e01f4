// The columns that store sums and counts, and how to compute their values for existing rows.

import type { ResourceColumn, ResourceTable } from '../../storage/resource-tables/resource-columns.ts'
import { columnType } from '../column-types.ts'
import type { Declaration } from '../declaration.ts'
import { columnName } from '../table.ts'
import { maxTotal, sourceOf } from './total-sources.ts'

/** Returns a table with the columns of its resource's sums and counts; `all` contains the resources of the service. */
export function withTotals(table: ResourceTable, declaration: Declaration, all: readonly Declaration[]): ResourceTable {
  const { computed, filters, ranges, sorts } = declaration
  if (computed.totals.length === 0) return table
  const totals = computed.totals.map((total): ResourceColumn => {
    const { name, kind, schema, field } = total
    const source = sourceOf(declaration, total, all)
    return {
      name: columnName(name),
      // Differs from a field's type, because turning a field into a total, or a total into a field, must be refused as
      // a change of type.
      kind: field === null ? 'count' : `sum of ${columnType(kind).recordedAs?.(schema) ?? kind}`,
      sql: columnType(kind).sql,
      ...{ required: false, folded: false, unique: false },
      indexed: [...filters, ...ranges, ...sorts].includes(name),
      ...(source && {
        total: {
          table: source.table,
          reference: columnName(source.reference),
          column: source.field === null ? null : columnName(source.field),
          limit: String(maxTotal(schema)),
        },
      }),
    }
  })
  return { ...table, columns: [...table.columns, ...totals] }
}
