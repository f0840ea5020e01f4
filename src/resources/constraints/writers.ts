import { isDeepStrictEqual } from 'node:util'
import type { Caller } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { RowId } from '../../storage/ids.ts'

/** Determines who can write which fields of a row, in addition to the scopes and access rules of its resource. */
export interface Writers {
  /** Fields whose changes by administrators are recorded in the audit log. */
  recorded: readonly string[]
  /** Another scope that permits PUT and PATCH. */
  orScope?: string
  /**
   * Returns the reason why a caller cannot write a field, or undefined if the caller can. For a new row, `id` is
   * undefined.
   */
  refusal: (caller: Caller, field: string, id?: RowId) => string | undefined
  /** Returns the fields that keep their values if a PUT omits them. */
  kept: (caller: Caller, id: RowId) => readonly string[]
}

/** A caller's write to a row. */
interface Write {
  caller: Caller
  id?: RowId
}

type Values = Readonly<Record<string, unknown>>

/** Throws 403 naming each field that the caller cannot write. */
function checkFields({ refusal }: Writers, fields: readonly string[], { caller, id }: Write): void {
  const errors = fields.flatMap((field) => {
    const message = refusal(caller, field, id)
    return message === undefined ? [] : [{ field, message }]
  })
  if (errors.length === 0) return
  const detail = errors.map(({ field, message }) => `${field} ${message}`).join('; ')
  throw new Problem('PERMISSION_DENIED', detail, { errors })
}

/** Returns the recorded fields in a new row. Throws 403 if the caller cannot write one of its fields. */
export function checkCreation(writers: Writers | undefined, body: Values, caller: Caller): readonly string[] {
  if (writers === undefined) return []
  const fields = Object.keys(body).filter((field) => body[field] !== undefined)
  checkFields(writers, fields, { caller })
  return recordedOf(writers, fields)
}

/**
 * Returns the recorded fields that a write changes. Throws 403 if the caller cannot write one of the changed fields.
 */
export function checkChange(
  writers: Writers | undefined,
  row: Values,
  values: Values,
  write: Write,
): readonly string[] {
  if (writers === undefined) return []
  const fields = Object.keys(values).filter((field) => !isDeepStrictEqual(row[field] ?? null, values[field] ?? null))
  checkFields(writers, fields, write)
  return recordedOf(writers, fields)
}

const recordedOf = ({ recorded }: Writers, fields: readonly string[]) =>
  fields.filter((field) => recorded.includes(field))
