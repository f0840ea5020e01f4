import type { TObject } from 'typebox'
import type { Caller } from '../../http/policies/authenticate.ts'
import { inputValidator } from '../../http/policies/body-parsing.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { type CallerFacts, type ClaimsOf, type RuleCaller, ruleCaller } from '../access/rules.ts'
import { amended } from '../column-types.ts'
import { counted, isCounting, nextOutside } from './counted.ts'
import { type CheckedValues, settable, type Unsettable } from './creation.ts'

type Body = Record<string, unknown>

interface CreatorOptions {
  db: Pick<Database, 'engine'>
  now: () => number
  factsOf: (caller: Caller) => Promise<CallerFacts>
}

interface Created extends Unsettable {
  path: string
  noun: string
  input: TObject
  defaults: CheckedValues
  claims: ClaimsOf<object>
}

/** Fills in the fields of `set` and `defaults` in a copy of a new row's body. */
export interface Creator {
  /** Returns the caller in the form that the functions receive; undefined if there are no functions. */
  callerOf: ((caller: Caller) => Promise<RuleCaller<never>>) | undefined
  /** Completes a body before the transaction. */
  created: (body: Body, caller: RuleCaller<never> | undefined) => Body
  /** Completes a body in the transaction. Used instead of `created` if a function awaits `next()`. */
  createdIn: ((tx: Queryable, body: Body, caller: RuleCaller<never> | undefined) => Promise<Body>) | undefined
}

/**
 * Returns the creator of a resource. The creator throws 403 if a function of `set` returns nothing. If a function
 * throws or returns an invalid value, the creator throws an error, which becomes a 500.
 */
export function creator(declaration: Created, { now, factsOf, db: { engine } }: CreatorOptions): Creator {
  const { set, defaults, claims } = declaration
  const all = [...Object.values(set), ...Object.values(defaults)]
  if (all.length === 0) {
    const created = declaration.view ? (body: Body) => settable(declaration, body) : (body: Body) => body
    return { callerOf: undefined, created, createdIn: undefined }
  }
  const hasFunctions = all.some((value) => typeof value === 'function')
  const callerOf = async (caller: Caller) => ruleCaller(claims, caller, await factsOf(caller))
  const complete = completer(declaration)
  const clock = () => new Date(now())
  const created: Creator['created'] = (body, caller) => {
    const context = { caller, clock, next: nextOutside }
    const values = missing(declaration, body).map(([field, value, place]) => [field, resolved(value, place, context)])
    return complete(body, Object.fromEntries(values))
  }
  const given = { callerOf: hasFunctions ? callerOf : undefined, created }
  if (!all.some(isCounting)) return { ...given, createdIn: undefined }
  // These errors are passed on unchanged: a timeout while waiting for the counter, for example, becomes a 503.
  const isPassedOn = (error: unknown) => engine.isUnavailable(error) || engine.isLockTimeout(error)
  const createdIn: Creator['createdIn'] = async (tx, body, caller) => {
    const values: Body = {}
    for (const [field, value, place] of missing(declaration, body)) {
      values[field] = isCounting(value)
        ? await counted(tx, ({ next }) => value({ caller, clock, next })).catch((error) => {
            throw isPassedOn(error) ? error : functionError(place, error)
          })
        : resolved(value, place, { caller, clock, next: nextOutside })
    }
    return complete(body, values)
  }
  return { ...given, createdIn }
}

/** Returns the fields to add to a body, each with its declared value and its path for error messages. */
function missing(declaration: Created, body: Body): [field: string, value: unknown, place: string][] {
  const { path, set, defaults } = declaration
  const sent = settable(declaration, body)
  const absent = Object.entries(defaults).filter(([field]) => !(field in sent))
  return [
    ...absent.map(([field, value]): [string, unknown, string] => [field, value, `${path}: defaults.${field}`]),
    ...Object.entries(set).map(([field, value]): [string, unknown, string] => [field, value, `${path}: set.${field}`]),
  ]
}

/** Returns the function that validates values and adds them to a body. */
function completer(declaration: Created): (body: Body, values: Body) => Body {
  const { path, noun, input, set, defaults } = declaration
  const fields = [...Object.keys(set), ...Object.keys(defaults)]
  const properties = Object.fromEntries(fields.map((field) => [field, input.properties[field]]))
  const check = inputValidator(amended(input, { required: [], properties }), 'body')
  return (body, values) => {
    const absent = Object.keys(set).find((field) => (values[field] ?? undefined) === undefined)
    if (absent !== undefined) {
      throw new Problem('PERMISSION_DENIED', `You cannot create a ${noun}: it needs ${absent}`)
    }
    const present = Object.fromEntries(Object.entries(values).filter(([, value]) => (value ?? undefined) !== undefined))
    const result = check(present)
    if ('error' in result) {
      const failures = result.error.map(({ instancePath, message }) => `${instancePath.slice(1)} ${message}`)
      throw new Error(`${path}: set or defaults returned an invalid value: ${failures.join(', ')}`)
    }
    return { ...settable(declaration, body), ...present }
  }
}

/** Returns a field's value; undefined if the function returns nothing. */
function resolved(value: unknown, place: string, context: object): unknown {
  if (typeof value !== 'function') return structuredClone(value)
  try {
    return value(context) ?? undefined
  } catch (cause) {
    throw functionError(place, cause)
  }
}

const functionError = (place: string, cause: unknown) => new Error(`${place} threw an error`, { cause })
