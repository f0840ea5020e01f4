import { accessOf } from '../access/enforce.ts'
import { presenter } from '../computed/present.ts'
import type { CollectionOptions, Declaration } from '../declaration.ts'
import { listItemSerializer } from '../representation.ts'
import { resourceRows } from '../resource-rows.ts'
import type { Expandable } from './expand.ts'
import { relationsOf } from './relations.ts'

/**
 * Returns how `expand` accesses the collections that a version serves under a prefix. Each collection is prepared on
 * first use.
 */
export function expandableOf(
  options: Pick<CollectionOptions, 'db' | 'factsOf' | 'now' | 'zone'>,
  served: readonly Declaration[],
  prefix: string,
): Expandable {
  const { db } = options
  return {
    relationsOf: perDeclaration((declaration) => relationsOf(declaration, served)),
    rowsOf: perDeclaration((declaration) => resourceRows(db, declaration)),
    accessOf: perDeclaration((declaration) => accessOf(declaration, options)),
    itemOf: perDeclaration((declaration) =>
      listItemSerializer({ declaration, prefix, presenter: presenter(declaration, options) }),
    ),
  }
}

function perDeclaration<T>(make: (declaration: Declaration) => T): (declaration: Declaration) => T {
  const made = new Map<Declaration, T>()
  return (declaration) => {
    const value = made.get(declaration) ?? make(declaration)
    made.set(declaration, value)
    return value
  }
}
