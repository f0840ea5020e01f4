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
import type { IdType } from '../storage/ids.ts'
import { type Definition, defineService, type ServiceOptions } from './service.ts'
import { plinthErrors } from './users-rules.ts'

type FieldOf<Fields extends TObject> = Extract<keyof Fields['properties'], string>

/** What a service adds to users, in addition to their name, e-mail address, postal address and phone number. */
export interface UsersOptions<Fields extends TObject = TObject, Role extends string = string> {
  /**
   * Additional fields. They are optional for every user, even if the schema requires them, because existing users have
   * no value until someone sets one.
   */
  fields?: Fields
  /** The roles that a user may have, in addition to `admin` or `user`. */
  roles?: readonly Role[]
  /** Fields that users may write in their own row; only administrators may write the other added fields. */
  own?: readonly (NoInfer<FieldOf<Fields>> | 'name' | 'address' | 'phone')[]
  /** Fields in /oauth/userinfo responses to tokens with the scope `profile`. */
  userinfo?: readonly (NoInfer<FieldOf<Fields>> | 'role')[]
}

/** The roles that rules may use; any text if `plinth()` declares no roles. */
type RoleOf<Role extends string> = [Role] extends [never] ? string : Role | 'admin' | 'user'

export interface PlinthOptions<
  Claims extends object = object,
  Fields extends TObject = TObject,
  Role extends string = string,
> {
  /**
   * Fields and roles of users. The service then serves /users, where callers without `users:read:full` see only
   * themselves.
   */
  users?: UsersOptions<Fields, Role>
  /**
   * Computes the facts about a caller that access rules can use, besides the id, roles and scopes. Must be a pure
   * function.
   */
  claims?: (facts: CallerFacts<Static<Fields>, RoleOf<Role>>) => Claims
}

// The type of the added fields if `fields` is omitted. With the type `object`, rules could name any field.
// biome-ignore lint/complexity/noBannedTypes: the properties of an empty object schema
type NoFields = TObject<{}>

/**
 * Returns `collection`, `service` and `users`, with types for access rules that use claims and the added fields and
 * roles of users. Throws `DefinitionError` if the options are invalid.
 */
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
      Ids extends IdType = 'integer',
    >(
      declared: ResourceOptions<B, Claims, RoleOf<Role>, Computed, Derived, Ids> & GivenFields<Set, Defaulted>,
    ): Collection<B, Computed, Set | Defaulted, Extract<keyof Derived, string>, Ids> =>
      collectionWith(declared, { ...(claims && { claims }), users: extended }),
    service: (declared: ServiceOptions) => defineService(declared, extended) as Definition<Claims, RoleOf<Role>>,
    /** The collection of users. With the option `users`, every version serves it at `/users`. */
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
