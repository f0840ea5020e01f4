import { fromValidation } from '../../http/problems/framework-errors.ts'
import type { Served } from '../declaration.ts'

type Values = Record<string, unknown>

/**
 * Returns the declared fields of a body: ignores unknown and read-only fields, sets absent fields to their default or
 * null, and normalizes values, such as instants to UTC.
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
 * Returns true unless a patch member is null, which removes the field, or an object, which patches the existing object.
 */
const isCompleteValue = (value: unknown) => typeof value !== 'object' || Array.isArray(value)

/** Validates the merged resource as PUT would and returns its values. */
export function validated(served: Served, merged: Values): Values {
  const present = served.fieldNames.filter((name) => merged[name] !== null && merged[name] !== undefined)
  const candidate = Object.fromEntries(present.map((name) => [name, merged[name]]))
  const result = served.check(candidate)
  if ('error' in result) throw fromValidation(result.error, 'body')
  return bodyValues(served, candidate)
}
