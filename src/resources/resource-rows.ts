import { isSubscribed } from '../queue/events.ts'
import type { Database } from '../storage/database.ts'
import { type Rows, rowsOf } from '../storage/rows/rows.ts'
import type { ColumnKind } from './column-types.ts'
import { isIntegral } from './conditions/fields.ts'
import type { Declaration } from './declaration.ts'
import { codecsOf } from './table.ts'

/** Returns SQL, for the statement of each change, that tells whether its event has a subscriber. */
const hasSubscriber = ({ noun }: Pick<Declaration, 'noun'>) => ({
  created: isSubscribed(`${noun}.created`),
  updated: isSubscribed(`${noun}.updated`),
  deleted: isSubscribed(`${noun}.deleted`),
})

/** Returns access to the rows of a declared resource. */
export function resourceRows(db: Database, declaration: Declaration): Rows {
  const { table, ids, columns, kinds, folded, blank, sorts, references, access, computed, view, overlay } = declaration
  const { keepDeletedMs } = declaration
  const fields = [...Object.keys(kinds), ...computed.totals.map(({ name }) => name)]
  // Links, conditions and functions may use any field.
  const isMade = [...Object.keys(computed.whens), ...Object.keys(computed.derived)].length > 0
  const isPartial = declaration.listed !== undefined && declaration.links === undefined && !isMade
  const read = ['id', 'revision', ...(declaration.listed ?? []), ...sorts, ...references.map(({ field }) => field)]
  return rowsOf(db, {
    ...{ table, ids, columns, fields: [...fields, ...(access ? ['createdBy'] : [])], folded, blank },
    subscribed: hasSubscriber(declaration),
    // Access rules for the deletion event need the row as it was, and kept rows are stored as they were.
    returnsDeleted: access !== undefined || keepDeletedMs !== undefined,
    listed: isPartial ? [...new Set(read)] : undefined,
    codecs: codecsOf(declaration),
    narrow: overlay && Object.keys(kinds).filter((field) => isIntegral(kinds[field] as ColumnKind)),
    indexed: view?.collection.search.map(view.memberOf),
  })
}
