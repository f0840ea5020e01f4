import type { Caller } from '../../http/policies/authenticate.ts'
import { passesAll, passesNone, type RelationStep, type RowTest, relatedTest } from '../../storage/rows/row-test.ts'
import type { Condition } from '../conditions/condition.ts'
import { conditionTest } from '../conditions/conditions.ts'
import type { ConditionFields, ConditionRelations } from '../conditions/fields.ts'

/** The known facts about a caller: its client and, unless it is a machine client, its user. */
export interface CallerFacts<Fields extends object = object, Role extends string = string> {
  user?: Readonly<
    Partial<Fields> & {
      id: number
      name: string
      email: string
      /**
       * The role declared with `plinth({ users })` or, if no roles are declared, the account's role: `admin`, `user` or
       * none.
       */
      role: Role | null
      /** The declared role and the account's role, because an administrator may have both. */
      roles: readonly Role[]
    }
  >
  client: Readonly<{ id: string; labels: Readonly<Partial<Record<string, string>>> }>
}

/** A caller whose claims may already be known. If they are, the claims function is not called. */
export interface KnownCaller extends CallerFacts {
  /** Used in place of the claims function's result. */
  claims?: object | undefined
}

/** The caller of a request, as passed to access rules. */
export interface RuleCaller<Claims = object, Role extends string = string> {
  /** `user:7`, or `client:crm` for a machine client: the value of `createdBy` in rows that the caller creates. */
  id: string
  /** The result of the claims function passed to `plinth()`; empty if there is none. */
  claims: Claims
  /** Returns true if the caller is a user with this role. */
  is: (role: Role) => boolean
  /** Returns true if the caller's token has this scope. */
  may: (scope: string) => boolean
}

/** Decides which rows a caller can access: all, none, or those that meet a condition. Must be a pure function. */
export type AccessRule<
  Fields extends object,
  Claims = object,
  Role extends string = string,
  Related extends object = object,
> = (caller: RuleCaller<Claims, Role>) => boolean | Condition<Fields & { createdBy: string }, Related>

/**
 * Either one rule for both reading and writing, or one rule for each, or `of`: the relation to the row whose rules
 * apply. Rows must be readable to be writable.
 */
export type Access<
  Fields extends object,
  Claims = object,
  Role extends string = string,
  Related extends object = object,
> =
  | AccessRule<Fields, Claims, Role, Related>
  | { read: AccessRule<Fields, Claims, Role, Related>; write: AccessRule<Fields, Claims, Role, Related> }
  | { of: Extract<keyof Related, string> }

/** Computes the claims of a caller. Must be a pure function. */
export type ClaimsOf<Claims extends object> = (facts: CallerFacts) => Claims

type UntypedRule = (caller: RuleCaller<never>) => unknown

/** The fields and relations that the conditions in rules can name. */
interface Named {
  fields: ConditionFields
  relations: ConditionRelations
  /** The users declared in the same `plinth()`, if any. */
  users?: object | undefined
}

interface OwnRules extends Named {
  read: UntypedRule
  write: UntypedRule
  claims: ClaimsOf<object>
}

/** The rules of the related row. */
interface RulesOfRelated extends Named {
  of: RelationStep
  rules: DeclaredAccess
}

/** The access rules in a declaration. */
export type DeclaredAccess = OwnRules | RulesOfRelated

/** The rows that one caller can access. */
export interface RowAccess {
  /** The caller's id, for `createdBy`. */
  createdBy: string
  read: RowTest
  /** Matches the rows that can be written, all of which can also be read. */
  write: RowTest
}

/** Returns which rows of a resource a caller can read and write. */
export type AccessOf = (caller: Caller) => Promise<RowAccess>

/** Returns the test that selects the rows of a collection that one caller can read. */
export type Reach = (of: { path: string }) => RowTest

/** Returns a caller's id, for rules and `createdBy`. */
export const callerId = ({ clientId, subject }: Pick<Caller, 'clientId' | 'subject'>): string =>
  subject === clientId ? `client:${clientId}` : `user:${subject}`

/** Returns the caller in the form that rules receive. Throws if the claims function throws. */
export const ruleCaller = (claims: ClaimsOf<object>, caller: Caller, facts: KnownCaller): RuleCaller<never> => ({
  id: callerId(caller),
  claims: (facts.claims ?? claims(facts)) as never,
  is: (role) => facts.user?.roles.includes(role) ?? false,
  may: (scope) => caller.scopes.has(scope),
})

/** Evaluates the rules for a caller. Throws if a rule throws or returns anything but a boolean or a valid condition. */
export function accessFor(access: DeclaredAccess, caller: Caller, facts: CallerFacts, today: () => string): RowAccess {
  if ('of' in access) {
    const { createdBy, read, write } = accessFor(access.rules, caller, facts, today)
    const ofRead = relatedTest(access.of, read)
    return { createdBy, read: ofRead, write: write === read ? ofRead : relatedTest(access.of, write) }
  }
  const about = ruleCaller(access.claims, caller, facts)
  const test = (rule: UntypedRule) => {
    const result = rule(about)
    if (typeof result === 'boolean') return result ? passesAll : passesNone
    return conditionTest(result, { fields: access.fields, relations: access.relations, today })
  }
  const read = test(access.read)
  return { createdBy: about.id, read, write: access.write === access.read ? read : allOf(read, test(access.write)) }
}

/** Returns a test that selects the rows that both tests select. */
export function allOf(one: RowTest, other: RowTest): RowTest {
  if (one === passesAll || one === other) return other
  return other === passesAll ? one : { all: [one, other] }
}
