import { type Static, type TObject, Type } from 'typebox'
import { type ExtendedUsers, extendUsers } from '../catalog/extended-users.ts'
import { users as builtInUsers } from '../catalog/users.ts'
import type { CallerFacts, ClaimsOf } from '../resources/access/rules.ts'
import { collectionWith } from '../resources/collection.ts'
import type { DerivedSchemas } from '../resources/computed/options.ts'
import type { GivenFields } from '../resources/constraints/creation.ts'
import type { Collection } from '../resources/declaration.ts'
import type { FieldOf as BodyField, ResourceOptions } from '../resources/resource-options.ts'
import { DefinitionError } from '../startup-errors.ts'
import { type Definition, defineService, type ServiceOptions } from './service.ts'
import { plinthErrors } from './users-rules.ts'

type FieldOf<Fields extends TObject> = Extract<keyof Fields['properties'], string>

/** What a service adds to users, who have a name, an e-mail address, an address and a phone number. */
export interface UsersOptions<Fields extends TObject = TObject, Role extends string = string> {
  /**
   * More fields. They are optional in every user, also those that the schema requires, because existing users have no value
   * until someone sets it.
   */
  fields?: Fields
  /** The roles that a user may have, besides that of administrators. */
  roles?: readonly Role[]
  /** Fields that users may write themselves; administrators alone write all others. */
  own?: readonly (NoInfer<FieldOf<Fields>> | 'name' | 'address' | 'phone')[]
  /** Fields in the response of /oauth/userinfo to tokens with the scope `profile`. */
  userinfo?: readonly (NoInfer<FieldOf<Fields>> | 'role')[]
}

/** The roles that rules can name: any if `plinth()` declares none. */
type RoleOf<Role extends string> = [Role] extends [never] ? string : Role | 'admin' | 'user'

export interface PlinthOptions<
  Claims extends object = object,
  Fields extends TObject = TObject,
  Role extends string = string,
> {
  /** Fields and roles of users; the service then serves /users, where callers without `users:read:full` see themselves. */
  users?: UsersOptions<Fields, Role>
  /** Computes what access rules know about a caller besides its id, roles and scopes. Must be a pure function. */
  claims?: (facts: CallerFacts<Static<Fields>, RoleOf<Role>>) => Claims
}

// Without `fields`, users have no more; `object` would allow any name.
// biome-ignore lint/complexity/noBannedTypes: the properties of an empty object schema
type NoFields = TObject<{}>

/** Returns `collection` and `service` for access rules that use claims, typed by them and by the fields and roles of users. */
export function plinth<Claims extends object = object, Fields extends TObject = NoFields, Role extends string = never>(
  options: PlinthOptions<Claims, Fields, Role> = {},
) {
  const errors = plinthErrors(options)
  if (errors.length > 0) throw new DefinitionError(errors)
  const extended = options.users && extendedBy(options.users)
  const claims = options.claims as ClaimsOf<object> | undefined
  return {
    collection: <
      B extends TObject,
      Computed extends string = never,
      Derived extends DerivedSchemas = Record<never, never>,
      Set extends BodyField<B> = never,
      Defaulted extends BodyField<B> = never,
    >(
      declared: ResourceOptions<B, Claims, RoleOf<Role>, Computed, Derived> & GivenFields<Set, Defaulted>,
    ): Collection<B, Computed, Set | Defaulted, Extract<keyof Derived, string>> =>
      collectionWith(declared, { ...(claims && { claims }), users: extended }),
    service: (declared: ServiceOptions): Definition => defineService(declared, extended),
    /** The users of the service: `/users` of every version. */
    users: extended?.collection ?? builtInUsers,
  }
}

interface UntypedOptions {
  fields?: TObject
  roles?: readonly string[]
  own?: readonly string[]
  userinfo?: readonly string[]
}

const extendedBy = ({ fields, roles = [], own = [], userinfo = [] }: UntypedOptions): ExtendedUsers =>
  extendUsers({ fields: fields ?? Type.Object({}), roles, own, userinfo })
