import { Type } from 'typebox'
import { documentedRules } from './partial-schema.ts'

const form = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Returns a UUID (RFC 9562 §4) in canonical lower case; undefined for other text. */
export const uuidOf = (text: string): string | undefined => (form.test(text) ? text.toLowerCase() : undefined)

/** Returns true for a UUID in canonical lower case. */
export const isCanonicalUuid = (value: unknown): value is string => typeof value === 'string' && uuidOf(value) === value

/** The error message for text that is not a UUID. */
export const mustBeUuid = 'must be a UUID'

/** A UUID version 7, for examples in documents. */
export const uuidExample = '019cc5a1-4c00-7a3e-9d52-6f1b8e0c4d27'

/** Returns the schema of a UUID of any version, in upper or lower case. Adds an example if there is a description. */
export const Uuid = (description?: string) =>
  Type.Refine(
    Type.String({
      ...(description !== undefined && { description, examples: [uuidExample] }),
      ...documentedRules({ format: 'uuid' }),
    }),
    (text) => uuidOf(text) !== undefined,
    () => mustBeUuid,
  )
