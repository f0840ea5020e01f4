import { decimalReader } from '../http/decimal.ts'
import { inputValidator } from '../http/policies/body-parsing.ts'
import { reachOf } from './access/enforce.ts'
import { columnType } from './column-types.ts'
import { listConditions } from './computed/list-conditions.ts'
import { presenter } from './computed/present.ts'
import { creator } from './constraints/creator.ts'
import { defaultFiller } from './constraints/defaults.ts'
import type { CollectionOptions, Declaration, Served } from './declaration.ts'
import { representationCache } from './reads/representation-cache.ts'
import { expander } from './relations/expand.ts'
import { expandableOf } from './relations/expandable.ts'
import { referenceCheck } from './relations/reference-check.ts'
import { mayMeetLocks, removable } from './relations/removable.ts'
import { serializer } from './representation.ts'
import { resourceRows } from './resource-rows.ts'
import { viewParts } from './views/view-parts.ts'

/** Returns the context of a resource's routes under a version prefix. */
export function servedResource(declaration: Declaration, options: CollectionOptions, prefix: string): Served {
  const { kinds, body, input, patchable } = declaration
  const fieldNames = Object.keys(kinds)
  const types = Object.entries(kinds).map(([name, kind]) => [name, columnType(kind)] as const)
  const { all = [declaration], served = [declaration] } = options.related ?? {}
  const expandable = expandableOf(options, served, prefix)
  const shown = presenter(declaration, options)
  const { view } = declaration
  // Even for a view, deletions, locks, totals and events use the collection, with its own field names.
  const collection = view?.collection ?? declaration
  const own = removable(collection, options, all)
  return {
    ...options,
    ...{ declaration, prefix, fieldNames, rows: own.rows, announce: own.announce, totals: own.totals },
    ...{ lock: own.lock, hooks: own.hooks },
    ...(view && { rows: resourceRows(options.db, declaration), ...viewParts(view, { ...options, ...own }) }),
    normalizers: types.flatMap(([name, { normalize }]) => (normalize ? [[name, normalize]] : [])),
    // If fields may be hidden, representations depend on the caller and are not cached.
    representations: representationCache(declaration.table, declaration.hides ? null : options.db.changes),
    complete: defaultFiller(body),
    creator: creator(declaration, options),
    check: inputValidator(input, 'body'),
    readDecimals: decimalReader(patchable),
    serialize: serializer(declaration, prefix, shown),
    presenter: shown,
    listConditions: listConditions(declaration.computed, options),
    accessOf: expandable.accessOf(declaration),
    accessTo: expandable.accessOf,
    references: referenceCheck(options, declaration, all),
    remove: own.remove,
    meetsLocks: mayMeetLocks(collection, all),
    referrers: reachOf(own.children.length > 0 ? all.filter(forbidsDeletion) : [], options),
    isReferred: own.children.length > 0,
    relations: expandable.relationsOf(declaration),
    expand: (text, request, reply) => expander(declaration, text, { request, reply, on: expandable }),
  }
}

/** Returns true if rows of this collection may prevent the deletion of rows that they refer to. */
const forbidsDeletion = ({ references }: Declaration) => references.some(({ onDelete }) => onDelete === 'restrict')
