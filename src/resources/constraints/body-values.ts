import { fromValidation } from '../../http/problems/framework-errors.ts'
import type { Served } from '../declaration.ts'

type Values = Record<string, unknown>

/**
 * Returns the values of all declared fields: normalized (instants to UTC, for example), with the default or null for
 * absent fields. Ignores unknown members of the body.
 */
export function bodyValues({ fieldNames, normalizers, complete }: Served, body: Values): Values {
  const values: Values = {}
  const filled = complete(body)
  for (const name of fieldNames) values[name] = filled[name] ?? null
  for (const [name, normalize] of normalizers) if (values[name] !== null) values[name] = normalize(values[name])
  return values
}

/** Rejects a patch with invalid members before the resource is read. */
export function rejectInvalidMembers({ fieldNames, check }: Served, body: Values): void {
  const sent = fieldNames.filter((name) => Object.hasOwn(body, name) && isCompleteValue(body[name]))
  const result = check(Object.fromEntries(sent.map((name) => [name, body[name]])))
  // A required field may be absent from a patch; only null would remove it.
  const failures = ('error' in result ? result.error : []).flatMap((failure) => {
    if (failure.keyword !== 'required') return [failure]
    const requiredProperties = (failure.params.requiredProperties as string[]).filter((name) => body[name] === null)
    return requiredProperties.length > 0 ? [{ ...failure, params: { requiredProperties } }] : []
  })
  if (failures.length > 0) throw fromValidation(failures, 'body')
}

/**
 * Returns true for a patch member that replaces the field: neither null, which removes the field, nor an object, which
 * patches it.
 */
const isCompleteValue = (value: unknown) => typeof value !== 'object' || Array.isArray(value)

/** Validates a complete resource, such as the result of a merge, against the body schema. Returns its values. */
export function validated(served: Served, merged: Values): Values {
  const present = served.fieldNames.filter((name) => merged[name] !== null && merged[name] !== undefined)
  const candidate = Object.fromEntries(present.map((name) => [name, merged[name]]))
  const result = served.check(candidate)
  if ('error' in result) throw fromValidation(result.error, 'body')
  return bodyValues(served, candidate)
}
