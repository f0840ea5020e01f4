import type { Database } from '../storage/database.ts'
import { type Rows, rowsOf } from '../storage/rows/rows.ts'
import { hasSubscriber } from './change-events.ts'
import type { Declaration } from './declaration.ts'
import { codecsOf } from './table.ts'

/** The rows of a declared resource. */
export function resourceRows(db: Database, declaration: Declaration): Rows {
  const { table, kinds, folded, blank, sorts, references, access } = declaration
  // A resource with links reads all fields, because links may be built from any of them.
  const isPartial = declaration.listed !== undefined && declaration.links === undefined
  const read = ['id', 'revision', ...(declaration.listed ?? []), ...sorts, ...references.map(({ field }) => field)]
  return rowsOf(db, {
    ...{ table, fields: [...Object.keys(kinds), ...(access ? ['createdBy'] : [])], folded, blank },
    ...(!access && { subscribed: hasSubscriber(declaration) }),
    listed: isPartial ? [...new Set(read)] : undefined,
    codecs: codecsOf(declaration),
  })
}
