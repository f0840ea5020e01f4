import type { TSchema } from 'typebox'
import type { Declaration } from '../declaration.ts'
import { queryNames } from '../queries/bounds.ts'
import { refOf } from './ref.ts'
import { relationsOf, relationsToMany } from './relations.ts'

/** Members that every representation may have, besides the fields of the body. */
const ownMembers = ['id', 'revision', 'sharesSecond', 'createdAt', 'updatedAt', 'view']

/** Returns the errors in the references among the resources of a service. */
export function relationErrors(declarations: readonly Declaration[]): string[] {
  return declarations.flatMap((declaration, at) => [
    ...orderErrors(declaration, at, declarations),
    ...nameErrors(declaration, declarations),
  ])
}

function orderErrors(declaration: Declaration, at: number, declarations: readonly Declaration[]): string[] {
  const { path, references, body } = declaration
  return references.flatMap(({ field, path: target }) => {
    const targetAt = declarations.findIndex((declaration) => declaration.path === target)
    if (targetAt === -1) {
      return [`service: ${field} of ${path} refers to ${target}, which resources does not list: add it`]
    }
    const to = refOf(body.properties[field] as TSchema)?.to
    // Conditions use the access rules and fields of the collection passed to `Ref`, so the service must contain that
    // same collection object.
    if (to !== undefined && to !== 'self' && to.declaration !== declarations[targetAt]) {
      return [`service: ${field} of ${path} refers to another collection at ${target} than resources lists: use one`]
    }
    // Tables are created in the order of `resources`, each with its foreign keys.
    return targetAt > at
      ? [`service: ${field} of ${path} refers to ${target}, which must come before it in resources`]
      : []
  })
}

/** Returns the errors about relations whose names conflict with other members, and about a parameter named `expand`. */
export function nameErrors(declaration: Declaration, declarations: readonly Declaration[]): string[] {
  const { path, shownBody, references } = declaration
  const taken = [...Object.keys(shownBody.properties), ...references.map(({ name }) => name), ...ownMembers]
  const errors = relationsToMany(declaration, declarations)
    .filter(({ name }) => taken.includes(name))
    .map(
      ({ name, declaration: child }) =>
        `service: ${child.path} refers to ${path}, which has a member '${name}' already: rename it, or change the path ${child.path}`,
    )
  const isExpandable = relationsOf(declaration, declarations).length > 0
  return isExpandable && queryNames({ ...declaration, body: shownBody }).includes('expand')
    ? [...errors, `service: ${path} defines the query parameter expand, which its relations need: rename the field`]
    : errors
}
