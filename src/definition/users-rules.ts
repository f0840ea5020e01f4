import type { TObject } from 'typebox'
import type { ExtendedUsers } from '../catalog/extended-users.ts'
import { userOptions, users } from '../catalog/users.ts'
import { nearest } from '../http/nearest.ts'
import { hasDefault } from '../resources/constraints/defaults.ts'
import type { Collection } from '../resources/declaration.ts'
import type { DeclaredVersions } from './version.ts'

const optionNames = ['users', 'claims']
const usersOptionNames = ['fields', 'roles', 'own', 'userinfo']
const roleForm = /^[a-z][a-z0-9-]{0,39}$/
const maxRoles = 50

/** Names that already have a meaning in caller facts, responses or tokens. */
const reserved = ['role', 'roles', 'sub', 'iss', 'aud', 'exp', 'iat', 'nbf', 'jti', 'nonce', 'azp', 'acr', 'amr']
const builtIn = Object.keys(userOptions.body.properties)

/** Returns the errors in the options of `plinth()`, except errors in field types, which `collection()` reports. */
export function plinthErrors(options: object): string[] {
  if (!isRecord(options)) return ['plinth: the options must be an object with users and claims, both optional']
  const { users, claims } = options
  return [
    ...unknownNames('plinth()', options, optionNames),
    ...(claims === undefined || typeof claims === 'function' ? [] : ['plinth: claims must be a function']),
    ...(users === undefined ? [] : usersErrors(users)),
  ]
}

function usersErrors(users: unknown): string[] {
  if (!isRecord(users)) return ['plinth: users must be an object with fields, roles, own and userinfo, all optional']
  const { fields, roles = [], own = [], userinfo = [] } = users
  if (fields !== undefined && (!isRecord(fields) || fields.type !== 'object' || !isRecord(fields.properties))) {
    return ['plinth: users.fields must be created with Type.Object()']
  }
  const lists = Object.entries({ roles, own, userinfo }).filter(([, list]) => !isTextList(list))
  if (lists.length > 0) return lists.map(([name]) => `plinth: users.${name} must be an array of distinct names`)
  const properties = (fields as TObject | undefined)?.properties ?? {}
  const named = Object.keys(properties)
  const free = [...named, 'name', 'address', 'phone']
  const shown = [...named, ...((roles as string[]).length > 0 ? ['role'] : [])]
  return [
    ...unknownNames('users of plinth()', users, usersOptionNames),
    ...named.flatMap((name) => fieldErrors(name, properties[name] as object)),
    ...roleErrors(roles as string[]),
    ...unlisted(own as string[], free).map(
      (name) => `plinth: users.own names ${name}: users may write ${free.join(', ')}; administrators write all others`,
    ),
    ...unlisted(userinfo as string[], shown).map(
      (name) => `plinth: users.userinfo names ${name}, but users.fields has no such field`,
    ),
  ]
}

function fieldErrors(name: string, schema: object): string[] {
  if (builtIn.includes(name)) return [`plinth: users.fields cannot include ${name}: users have such a field already`]
  if (reserved.includes(name)) return [`plinth: users.fields cannot include ${name}: the name is reserved`]
  if (!hasDefault(schema)) return []
  return [`plinth: users.fields: ${name} cannot have a default; let claims return one, as in user?.${name} ?? 'none'`]
}

const roleErrors = (roles: readonly string[]): string[] => [
  ...(roles.length > maxRoles ? [`plinth: users.roles has more than ${maxRoles} roles`] : []),
  ...roles
    .filter((role) => !roleForm.test(role))
    .map(
      (role) => `plinth: users.roles: '${role.slice(0, 60)}' must be 1 to 40 characters a-z 0-9 -, the first a letter`,
    ),
  ...roles
    .filter((role) => role === 'admin' || role === 'user')
    .map((role) => `plinth: users.roles cannot include ${role}: every service has that role`),
]

/** Returns the resources of a service; the users come first, unless they are already listed. */
export const withUsers = (resources: readonly Collection[], users: ExtendedUsers | undefined) =>
  users === undefined || !Array.isArray(resources) || resources.includes(users.collection)
    ? resources
    : [users.collection, ...resources]

/** Returns the versions of a service, each with the users. */
export const withUsersIn = (versions: DeclaredVersions, users: ExtendedUsers | undefined): DeclaredVersions =>
  Object.fromEntries(
    Object.entries(versions).map(([name, version]) => [
      name,
      { ...version, resources: withUsers(version.resources, users) },
    ]),
  )

/** Returns the errors of a service with extended users, or with resources that require them. */
export function extensionErrors(resources: readonly Collection[], extended: ExtendedUsers | undefined): string[] {
  const foreign = resources.filter(
    ({ declaration }) => declaration.users !== undefined && declaration.users !== extended,
  )
  return [
    ...foreign.map(
      ({ declaration: { path } }) =>
        `${path}: it needs the users of its plinth(): pass it to the service() that this plinth() returned`,
    ),
    ...(extended && resources.includes(users)
      ? ['/users: plinth() declares users with more fields: list its users, or none, instead of those of the package']
      : []),
  ]
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

const isTextList = (list: unknown): boolean =>
  Array.isArray(list) && list.every((one) => typeof one === 'string') && new Set(list).size === list.length

const unlisted = (names: readonly string[], allowed: readonly string[]) =>
  names.filter((name) => !allowed.includes(name))

const unknownNames = (what: string, options: object, known: readonly string[]): string[] =>
  unlisted(Object.keys(options), known).map((name) => {
    const suggestion = nearest(name, known)
    const hint = suggestion === undefined ? `use ${known.join(', ')}` : `did you mean ${suggestion}?`
    return `plinth: ${what} has no option ${name}: ${hint}`
  })
