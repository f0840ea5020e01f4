import { types } from 'node:util'
import type { TObject, TSchema } from 'typebox'
import { Problem } from '../../http/problems/problem.ts'
import { amended } from '../column-types.ts'
import { described } from './described.ts'

/** A rule across the fields of a body, as declared. */
export interface Rule {
  /** The field that the error refers to. */
  field: string
  /** The rest of a sentence that begins with the field: `must not be before start`. */
  message: string
  /** A pure function of the body as it will be stored; absent fields are undefined. */
  holds: (body: never) => boolean
}

const members = ['field', 'message', 'holds']
const maxMessageLength = 200

/** Returns the errors in the `rules` of a declaration. */
export function ruleErrors(body: TObject, rules: readonly Rule[]): string[] {
  if (!Array.isArray(rules)) return ['rules must be an array of { field, message, holds }']
  return (rules as (Partial<Rule> | null)[]).flatMap((rule) => {
    const { field, message, holds } = rule ?? {}
    if (typeof field !== 'string' || !Object.hasOwn(body.properties, field)) {
      return [`rules names '${String(field).slice(0, 40)}', but body has no such field`]
    }
    const errors = Object.keys(rule ?? {})
      .filter((name) => !members.includes(name))
      .map((name) => `the rule of ${field} has no option '${name}'; use ${members.join(', ')}`)
    if (typeof message !== 'string' || message.trim() === '' || message.length > maxMessageLength) {
      errors.push(
        `the rule of ${field} needs a message of at most ${maxMessageLength} characters, such as 'must not be before start'`,
      )
    }
    if (typeof holds !== 'function') errors.push(`the rule of ${field} needs holds: (body) => boolean`)
    else if (types.isAsyncFunction(holds)) {
      errors.push(`holds of the rule of ${field} must not be async: it is a function of the body alone`)
    }
    return errors
  })
}

/** Returns the body with the rules added to the descriptions of their fields. */
export function withRules(body: TObject, rules: readonly Rule[]): TObject {
  if (rules.length === 0) return body
  const properties = Object.entries(body.properties as Record<string, TSchema>).map(([field, schema]) => {
    const ofField = rules.filter((rule) => rule.field === field)
    return [field, ofField.reduce((ruled, { message }) => described(ruled, message), schema)]
  })
  return amended(body, { properties: Object.fromEntries(properties) })
}

/**
 * Throws 422 with every rule that a row's values break. Throws an error, which becomes a 500, if a rule throws or
 * returns anything but a boolean, such as a promise.
 */
export function checkRules(
  { path, rules }: { path: string; rules: readonly Rule[] },
  values: Readonly<Record<string, unknown>>,
): void {
  if (rules.length === 0) return
  const present = Object.entries(values).filter(([, value]) => value !== null && value !== undefined)
  // A copy, so that a rule that sorts an array does not change the value to store.
  const body = structuredClone(Object.fromEntries(present))
  const errors = rules.filter((rule) => !isKept(path, rule, body)).map(({ field, message }) => ({ field, message }))
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
}

function isKept(path: string, { field, message, holds }: Rule, body: object): boolean {
  const rule = `the rule '${field} ${message}' of ${path}`
  let result: unknown
  try {
    result = holds(body as never)
  } catch (cause) {
    throw new Error(`${rule} threw an error`, { cause })
  }
  if (typeof result !== 'boolean') throw new Error(`${rule} must return true or false, not ${typeof result}`)
  return result
}
