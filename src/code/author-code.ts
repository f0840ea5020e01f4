import { isDeepStrictEqual } from 'node:util'
import { Problem } from '../http/problems/problem.ts'
import type { Declaration } from '../resources/declaration.ts'
import type { AuthorCode, RowHooks, WriteBy } from '../resources/writes/hooks.ts'
import { inUnit } from '../resources/writes/unit.ts'
import type { Queryable } from '../storage/database.ts'
import type { Row } from '../storage/rows/rows.ts'
import { accountFields } from './accounts.ts'
import { CodeError, runInTransaction } from './calls.ts'
import type { Code } from './collect.ts'
import { type ContextParts, codeContext, lazily } from './context.ts'
import type { CodeContext } from './context-types.ts'
import { type Moment, moments, type UntypedHook } from './hooks.ts'
import { Refusal } from './refuse.ts'
import { type CodeCollectionOptions, type CollectionOf, codeCollections } from './rows/collections.ts'
import { presentValues, shownRow, validBody } from './rows/row-calls.ts'
import type { CodeServices } from './services.ts'

/** The dependencies of a service's code. */
export interface CodeOptions extends Omit<CodeCollectionOptions, 'code' | 'related'>, CodeServices {
  /** Every collection of the service. */
  all: readonly Declaration[]
}

/** Runs the author's code in the transaction of a request. */
export type RunInRequest = <T>(
  code: { label: string; of: Declaration },
  tx: Queryable,
  by: WriteBy,
  run: (context: CodeContext) => T | Promise<T>,
) => Promise<T>

/** A service's code, ready to run. */
export interface ServiceCode {
  /** Undefined if the service has no hooks, so that writes can skip the lookup. */
  author: AuthorCode | undefined
  parts: ContextParts
  collectionOf: (of: { of: Declaration }) => ReturnType<CollectionOf>
  run: RunInRequest
}

const maxDepth = 8

/** Prepares the code of a service. */
export function serviceCode({ hooks }: Code, options: CodeOptions): ServiceCode {
  const { db, all, monotonic, running, jobs, fetch, log, now } = options
  const isPassedOn = (error: unknown) => db.engine.isUnavailable(error) || db.engine.isLockTimeout(error)
  const functions = new Map<string, Partial<Record<Moment, UntypedHook>>>()
  for (const one of hooks) functions.set(one.of.path, { ...functions.get(one.of.path), ...one.functions })
  const times = { monotonic, running }
  const run: RunInRequest = async ({ label, of }, tx, by, work) => {
    refuseDepth(label, by)
    try {
      return await runInTransaction(label, times, isPassedOn, (calls) => {
        const context = () =>
          codeContext(parts, { label, place: { tx }, by: nestedIn(label, by), calls: calls(), signal: neverAborted })
        return work(lazily(context))
      })
    } catch (error) {
      if (error instanceof Refusal) error.of ??= of.path
      throw error
    }
  }
  const author: AuthorCode = {
    hooksOf: (path) => {
      const given = functions.get(path)
      const declaration = all.find((one) => one.path === path)
      return given && declaration && rowHooks(declaration, given, collectionOf, run)
    },
    inUnit,
  }
  const collectionOf = codeCollections({ ...options, code: author }, all)
  const parts: ContextParts = { db, queue: options.queue, random: options.random, now, collectionOf, jobs, fetch, log }
  return {
    author: hooks.length > 0 ? author : undefined,
    parts,
    collectionOf: ({ of }) => collectionOf({ declaration: of }),
    run,
  }
}

const neverAborted = new AbortController().signal

function refuseDepth(label: string, { unit }: WriteBy): void {
  if (unit === undefined || unit.chain.length < maxDepth) return
  throw new CodeError(`Hooks are nested more than ${maxDepth} deep: ${[...unit.chain, label].join(' → ')}`)
}

/** Returns the context of writes inside a hook or an action: its label is added to the chain of hooks and actions. */
const nestedIn = (label: string, { caller, now, unit }: WriteBy): WriteBy => ({
  ...{ caller, now },
  ...(unit && { unit: { ...unit, chain: [...unit.chain, label] } }),
})

/** Returns the hooks of one collection. */
function rowHooks(
  declaration: Declaration,
  functions: Partial<Record<Moment, UntypedHook>>,
  collectionOf: CollectionOf,
  run: RunInRequest,
): RowHooks {
  const { path } = declaration
  const named = { declaration }
  const shown = (row: Row) => shownRow(collectionOf(named).served, row)
  const callOf = (moment: Moment) => {
    const hook = functions[moment]
    const label = `${moment} of ${path}`
    return (
      hook &&
      ((tx: Queryable, by: WriteBy, ...given: unknown[]) =>
        run({ label, of: declaration }, tx, by, (context) => hook(...given, context)))
    )
  }
  const [creating, created, changing, changed, removing, removed] = moments.map(callOf)
  const fieldNames = Object.keys(declaration.kinds)
  const bodyIn = (values: Record<string, unknown>) => Object.fromEntries(fieldNames.map((name) => [name, values[name]]))
  const final = (moment: 'creating' | 'changing', values: Record<string, unknown>, returned: unknown) => {
    if (isNothing(returned)) return bodyIn(values)
    const { served } = collectionOf(named)
    const label = `${moment} of ${path}`
    const changed = altered(label, served, values, returned)
    const kept = served.guard ? accountFields(declaration, moment) : []
    const refused = kept.find((field) => !isDeepStrictEqual(values[field] ?? null, changed[field] ?? null))
    if (refused === undefined) return changed
    throw new CodeError(
      `${label} cannot return ${refused}, which belongs to the user's account: use update() of a context`,
    )
  }
  return {
    creating:
      creating &&
      (async (tx, values, by) => final('creating', values, await creating(tx, by, presentValues(bodyIn(values))))),
    created: created && ((tx, row, by) => created(tx, by, shown(row))),
    changing:
      changing &&
      (async (tx, before, values, by) =>
        final('changing', values, await changing(tx, by, shown(before), presentValues(bodyIn(values))))),
    changed: changed && ((tx, before, after, by) => changed(tx, by, shown(before), shown(after))),
    removing: removing && ((tx, row, by) => removing(tx, by, shown(row))),
    removed: removed && ((tx, row, by) => removed(tx, by, shown(row))),
  }
}

const isNothing = (value: unknown) => value === undefined || value === null

/** Applies the changes that a hook returned. Throws a `CodeError` if they are not valid. */
function altered(
  label: string,
  served: ReturnType<CollectionOf>['served'],
  values: Record<string, unknown>,
  returned: unknown,
): Record<string, unknown> {
  const unknown = Object.keys(Object(returned)).filter((field) => !served.fieldNames.includes(field))
  if (typeof returned !== 'object' || unknown.length > 0) {
    throw new CodeError(
      `${label} must return an object of fields, or nothing, not ${unknown.join(', ') || typeof returned}`,
    )
  }
  const defined = Object.entries(returned as object).filter(([, value]) => value !== undefined)
  try {
    return validBody(served, { ...values, ...Object.fromEntries(defined) })
  } catch (cause) {
    if (!(cause instanceof Problem)) throw cause
    const errors = cause.errors?.map(({ field, message }) => `${field} ${message}`).join('; ')
    throw new CodeError(`${label} returned invalid values: ${errors ?? cause.message}`, { cause })
  }
}
