import { type ConditionDeclaration, conditionFields } from '../conditions/fields.ts'
import { createdByField } from '../constraints/locked.ts'
import type { Declaration } from '../declaration.ts'
import { conditionRelation, conditionRelations, refsOf } from '../relations/condition-relations.ts'
import type { RefDetails } from '../relations/ref.ts'
import type { ResourceOptions } from '../resource-options.ts'
import type { ClaimsOf, DeclaredAccess } from './rules.ts'

/** The maximum number of `of` steps from a collection to the one that declares the rules. */
const maxSteps = 3

/** The `access` option in the form `{ of }`. */
interface AccessOfRelated {
  of: string
}

type AccessOption = NonNullable<ResourceOptions['access']>
const isOfRelated = (access: unknown): access is AccessOfRelated => Object.hasOwn(Object(access), 'of')

/** Returns the errors in the `access` option. */
export function accessErrors({ access, publicRead, body }: ResourceOptions): string[] {
  if (access === undefined) return []
  const isRule = (rule: unknown) => typeof rule === 'function'
  const { read, write } = isRule(access) ? { read: access, write: access } : { ...Object(access) }
  const isPair = isRule(read) && isRule(write)
  return [
    ...(isOfRelated(access) ? relatedErrors(access, body) : []),
    ...(isPair || isOfRelated(access)
      ? []
      : ["access must be a function, { read, write } with two functions, or { of: 'relation' }"]),
    ...(publicRead ? ['publicRead and access contradict each other: only callers with a token have rows'] : []),
    ...(Object.hasOwn(body.properties, 'createdBy')
      ? ['the field name createdBy is reserved for the caller that creates a row, which access rules can name']
      : []),
  ]
}

function relatedErrors({ of, ...others }: AccessOfRelated, body: ResourceOptions['body']): string[] {
  if (Object.keys(others).length > 0) {
    return [`access names both of and ${Object.keys(others).join(', ')}: rules of another collection apply as they are`]
  }
  const refs = refsOf(body)
  const ref = refs.get(of)
  if (ref === undefined) {
    const cure = refs.size > 0 ? `use ${[...refs.keys()].join(' or ')}` : 'add one with Ref()'
    return [`access is that of '${String(of).slice(0, 40)}', which is no reference of the body: ${cure}`]
  }
  if (ref.to === 'self') {
    return [`access is that of '${of}', which refers to the same collection: its rules would never end`]
  }
  const { path, access } = ref.to.declaration
  if (access === undefined) return [`access is that of '${of}', but ${path} has no access rules: declare them there`]
  const steps = stepsOf(access) + 1
  return steps > maxSteps
    ? [`access is that of '${of}', after ${steps} steps: at most ${maxSteps} can follow each other`]
    : []
}

/** Returns the number of `of` steps to the collection that declares the rules. */
const stepsOf = (access: DeclaredAccess): number => ('of' in access ? 1 + stepsOf(access.rules) : 0)

/** Returns the rules of a valid `access` option, with the fields and relations that their conditions can name. */
export function declaredAccess(
  access: AccessOption,
  { claims = () => ({}), users }: { claims?: ClaimsOf<object>; users?: object | undefined },
  declaration: ConditionDeclaration & Pick<Declaration, 'table'>,
): DeclaredAccess {
  const fields = { ...conditionFields(declaration, 'letters'), createdBy: createdByField }
  if (isOfRelated(access)) {
    const ref = refsOf(declaration.body).get(access.of) as { field: string; to: Exclude<RefDetails['to'], 'self'> }
    const rules = ref.to.declaration.access as DeclaredAccess
    const relation = conditionRelation(ref, { declaration, fields })
    const relations = { [access.of]: { ...relation, relations: rules.relations } }
    return Object.freeze({ of: relation.step, rules, users: rules.users, fields, relations })
  }
  const relations = conditionRelations({ declaration, fields })
  const { read, write } = typeof access === 'function' ? { read: access, write: access } : access
  return Object.freeze({ read, write, claims, users, fields, relations })
}
