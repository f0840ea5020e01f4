import { type ColumnNames, columnOfField, keyColumnOfField } from './column-names.ts'
import type { KeyOf } from './inserter.ts'

/** Returns encoded values by column, with those of the companion columns. */
export function inColumns(
  encoded: Record<string, unknown>,
  values: Record<string, unknown>,
  { folded, columns, keyOf }: { folded: readonly string[]; columns: ColumnNames | undefined; keyOf: KeyOf },
): Record<string, unknown> {
  const stored = Object.entries(encoded).map(([field, value]) => [columnOfField(field, columns), value])
  const changed = folded.filter((field) => field in values)
  const keys = changed.map((field) => [keyColumnOfField(field, columns), keyOf(field, values[field])])
  return Object.fromEntries([...stored, ...keys])
}
