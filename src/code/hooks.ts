import type { TObject } from 'typebox'
import type { BodyOf } from '../resources/conditions/condition.ts'
import type { Collection, Declaration } from '../resources/declaration.ts'
import { DefinitionError } from '../startup-errors.ts'
import type { IdType } from '../storage/ids.ts'
import type { Changes, CodeContext, CodeRow } from './context-types.ts'
import { type Made, made } from './made.ts'

type MaybePromise<T> = T | Promise<T>

// biome-ignore lint/suspicious/noConfusingVoidType: a function without a return statement returns void
type Altered<B extends TObject, Ids extends IdType> = MaybePromise<Changes<B, Ids> | undefined | void>

/** The moments at which hooks run: before or after a row is created, changed or removed. */
export const moments = ['creating', 'created', 'changing', 'changed', 'removing', 'removed'] as const
export type Moment = (typeof moments)[number]

/**
 * Functions that run in the transaction of each write to a collection, by requests or by code. A hook that throws
 * `refuse(…)` refuses the write; any other error causes a 500. `creating` and `changing` may return fields to change.
 */
export interface HookFunctions<B extends TObject, C extends string, D extends string, Ids extends IdType> {
  /** Runs before a row is stored; `values` include those of `set` and `defaults`. */
  creating?: (values: BodyOf<B, Ids>, context: CodeContext) => Altered<B, Ids>
  created?: (row: CodeRow<B, C, D, Ids>, context: CodeContext) => MaybePromise<void>
  /** Runs before a change is stored; `values` are all fields after the change. */
  changing?: (before: CodeRow<B, C, D, Ids>, values: BodyOf<B, Ids>, context: CodeContext) => Altered<B, Ids>
  /** Runs after a change, including a change to a stored sum or count. */
  changed?: (before: CodeRow<B, C, D, Ids>, after: CodeRow<B, C, D, Ids>, context: CodeContext) => MaybePromise<void>
  removing?: (row: CodeRow<B, C, D, Ids>, context: CodeContext) => MaybePromise<void>
  removed?: (row: CodeRow<B, C, D, Ids>, context: CodeContext) => MaybePromise<void>
}

/** A hook without parameter types. */
export type UntypedHook = (...values: unknown[]) => unknown

/** The result of `hooks()`. */
export interface Hooks extends Made<'hooks'> {
  readonly of: Declaration
  readonly functions: Readonly<Partial<Record<Moment, UntypedHook>>>
}

/** Declares the hooks of a collection. Throws `DefinitionError` if the declaration is invalid. */
export function hooks<B extends TObject, C extends string, G extends string, D extends string, Ids extends IdType>(
  of: Collection<B, C, G, D, Ids>,
  functions: HookFunctions<B, C, D, Ids>,
): Hooks {
  const { declaration } = of as Collection
  const label = `hooks of ${declaration?.path}`
  const known: readonly string[] = moments
  const given = Object.entries(functions ?? {})
  const errors = [
    ...(declaration?.view ? [`${label}: name the collection, not a view of it`] : []),
    ...(given.length === 0 ? [`${label}: name at least one of ${moments.join(', ')}`] : []),
    ...given
      .filter(([moment]) => !known.includes(moment))
      .map(([moment]) => `${label}: there is no moment '${moment}'; use ${moments.join(', ')}`),
    ...given
      .filter(([, hook]) => typeof hook !== 'function')
      .map(([moment]) => `${label}: ${moment} must be a function`),
  ]
  if (errors.length > 0) throw new DefinitionError(errors)
  return made('hooks', label, { of: declaration, functions: functions as Hooks['functions'] })
}
