import { type TObject, type TSchema, Type } from 'typebox'
import type { Caller } from '../http/policies/authenticate.ts'
import type { RuleCaller } from '../resources/access/rules.ts'
import { collectionWith } from '../resources/collection.ts'
import { described } from '../resources/constraints/described.ts'
import type { Writers } from '../resources/constraints/writers.ts'
import type { Collection } from '../resources/declaration.ts'
import { canFilter } from '../resources/queries/list-rules.ts'
import { userOptions } from './users.ts'

/** Users with the fields and roles that a service adds. */
export interface ExtendedUsers {
  collection: Collection
  /** The added fields. */
  fields: readonly string[]
  roles: readonly string[]
  /** The fields that users may write in their own row. */
  own: readonly string[]
  /** The added fields in userinfo responses. */
  userinfo: readonly string[]
}

interface Additions extends Omit<ExtendedUsers, 'collection' | 'fields'> {
  fields: TObject
}

/** The scope that permits users to PUT and PATCH their own row, but only the fields in `own`. */
const ownScope = 'users:write:own'

/** Adds validated fields and roles to users. Throws `DefinitionError` for fields that cannot be stored. */
export function extendUsers({ fields, roles, own, userinfo }: Additions): ExtendedUsers {
  const added = addedFields(fields, roles, own)
  const names = Object.keys(added)
  const { properties } = userOptions.body
  const filters = names.filter((name) => canFilter(added[name] as TSchema))
  const options = {
    ...userOptions,
    body: Type.Object({ ...properties, ...added }, { examples: [exampleWith(added)] }),
    filters: [...(userOptions.filters ?? []), ...filters],
    listed: [...(userOptions.listed ?? []), ...names],
    scopes: {
      ...userOptions.scopes,
      'users:read:full': 'See all users, with every field',
      ...(own.length > 0 && { [ownScope]: `Change your own ${own.join(', ')}` }),
    },
    access: {
      read: ({ id, may }: RuleCaller) => may('users:read:full') || ownRow(id),
      write: ({ id, may }: RuleCaller) => may('users:write') || ownRow(id),
    },
  }
  const collection = collectionWith(options as typeof userOptions, { writers: writersOf(names, own) })
  return Object.freeze({ collection, fields: Object.keys(fields.properties), roles, own, userinfo })
}

/** Returns the condition for the caller's own row; false for machine clients and for users from other issuers. */
function ownRow(callerId: string): false | { id: number } {
  const [, id] = /^user:([1-9]\d{0,8})$/.exec(callerId) ?? []
  return id === undefined ? false : { id: Number(id) }
}

/** Returns the added fields. All are optional, because existing users and users who sign up have no values. */
function addedFields({ properties }: TObject, roles: readonly string[], own: readonly string[]) {
  const role = Type.Enum([...roles], { description: 'The role of the user in this service' })
  const all = { ...(properties as Record<string, TSchema>), ...(roles.length > 0 && { role }) }
  const rule = (name: string) =>
    own.includes(name) ? 'written by the user and by administrators' : 'written by administrators'
  return Object.fromEntries(
    Object.entries(all).map(([name, schema]) => [name, Type.Optional(described(schema, rule(name)))]),
  )
}

function exampleWith(added: Readonly<Record<string, TSchema>>) {
  const [example = {}] = (userOptions.body as { examples?: object[] }).examples ?? []
  const more = Object.entries(added).flatMap(([name, schema]) => {
    const { examples = [], enum: values = [] } = schema as { examples?: unknown[]; enum?: unknown[] }
    const [value] = [...examples, ...values]
    return value === undefined ? [] : [[name, value]]
  })
  return { ...example, ...Object.fromEntries(more) }
}

/**
 * Determines who may write which fields. The added fields require the scope `admin`, all other fields `users:write`.
 * Users may also write the fields in `own` of their own row.
 */
function writersOf(added: readonly string[], own: readonly string[]): Writers {
  const base = Object.keys(userOptions.body.properties)
  const refusal: Writers['refusal'] = ({ clientId, subject, scopes }: Caller, field, id) => {
    const isAdded = added.includes(field)
    if (!isAdded && !base.includes(field)) return undefined
    const isSelf = subject === String(id) && subject !== clientId
    if (scopes.has(isAdded ? 'admin' : 'users:write') || (isSelf && own.includes(field))) return undefined
    return isAdded ? 'can only be written with the scope admin' : 'can only be written with the scope users:write'
  }
  const kept: Writers['kept'] = (caller, id) => [
    ...added,
    ...base.filter((field) => refusal(caller, field, id) !== undefined),
  ]
  return { recorded: added, ...(own.length > 0 && { orScope: ownScope }), refusal, kept }
}
