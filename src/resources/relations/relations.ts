import type { Declaration, Relation } from '../declaration.ts'
import type { Reference } from './reference.ts'

/** A reference, with the collection that declares it. */
export interface Child {
  declaration: Declaration
  reference: Reference
}

/** Returns the references to a collection, each with the collection in `among` that declares it. */
export const childrenOf = ({ path }: Declaration, among: readonly Declaration[]): Child[] =>
  among.flatMap((declaration) =>
    declaration.references
      .filter((reference) => reference.path === path)
      .map((reference) => ({ declaration, reference })),
  )

/**
 * Returns the relations of a collection to the readable collections of a version. Hidden reference fields create no
 * relations.
 */
export function relationsOf(declaration: Declaration, served: readonly Declaration[]): Relation[] {
  const toOne = declaration.references.flatMap(({ field, name, path }): Relation[] => {
    const target = served.find((other) => other.path === path)
    const isShown = target !== undefined && isReadable(target) && !isHidden(declaration, field)
    return isShown ? [{ name, declaration: target, field, isMany: false }] : []
  })
  return [...toOne, ...relationsToMany(declaration, served)]
}

/**
 * Returns the relations to the readable collections that have exactly one reference to this collection. With several
 * references, it would be unclear which of them determines the rows of a nested list.
 */
export function relationsToMany(declaration: Declaration, served: readonly Declaration[]): Relation[] {
  const children = childrenOf(declaration, served)
  return children
    .filter((child) => children.filter((other) => other.declaration === child.declaration).length === 1)
    .filter((child) => isReadable(child.declaration) && !isHidden(child.declaration, child.reference.field))
    .map((child) => ({
      name: camelCase(child.declaration.name),
      declaration: child.declaration,
      field: child.reference.field,
      isMany: true,
    }))
}

/** Returns true if at least one operation shows the collection's rows. */
export const isReadable = ({ operations }: Declaration): boolean =>
  operations.includes('read') || operations.includes('list')

const isHidden = ({ concealed }: Declaration, field: string) => concealed.includes(field)
const camelCase = (name: string) => name.replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
