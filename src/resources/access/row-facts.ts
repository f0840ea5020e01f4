import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { type StoredRowReader, storedRowReader } from '../../storage/rows/related-rows.ts'
import type { Declaration } from '../declaration.ts'
import { codecsOf } from '../table.ts'

type Facts = Record<string, unknown>

/** A relation to follow, and the relations to follow from the related row. */
interface Step {
  name: string
  field: string
  read: StoredRowReader
  below: readonly Step[]
}

/**
 * Returns the function that adds related rows to a row, for access rules to inspect: each under the name of its
 * relation, and read in the given transaction. If a related row no longer exists, the function uses the row's own
 * member of that name, or `null`. `all` contains the collections of the service.
 */
export function rowFacts(declaration: Declaration, all: readonly Declaration[]) {
  const steps = stepsOf(declaration, all)
  return (tx: Queryable, row: Readonly<Facts>): Promise<Facts> => withRelated(tx, row, steps)
}

function stepsOf({ access, references }: Declaration, all: readonly Declaration[]): Step[] {
  const followed = Object.keys(access?.relations ?? {})
  return references
    .filter(({ name }) => followed.includes(name))
    .map(({ name, field, path }) => {
      const target = all.find((other) => other.path === path) as Declaration
      const { table, columns, kinds } = target
      const fields = ['id', ...Object.keys(kinds), 'createdAt', 'updatedAt', ...(target.access ? ['createdBy'] : [])]
      const read = storedRowReader({ table, fields, columns, codecs: codecsOf(target) })
      // The conditions of a rule follow one relation; longer paths exist only where a collection takes its rules from
      // another collection.
      return { name, field, read, below: access && 'of' in access ? stepsOf(target, all) : [] }
    })
}

async function withRelated(tx: Queryable, row: Readonly<Facts>, steps: readonly Step[]): Promise<Facts> {
  const facts = { ...row }
  for (const { name, field, read, below } of steps) {
    const id = (row[field] ?? null) as RowId | null
    const related = id === null ? undefined : ((await read(tx, id)) ?? (row[name] as Facts | undefined))
    facts[name] = related === undefined ? null : await withRelated(tx, related, below)
  }
  return facts
}
