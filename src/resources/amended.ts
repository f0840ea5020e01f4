import type { TSchema } from 'typebox'

/** Copies a schema with some keywords changed; the non-enumerable properties that TypeBox sets are preserved. */
export function amended<T extends TSchema>(schema: T, keywords: object): T {
  const own = Object.getOwnPropertyDescriptors(schema)
  return Object.defineProperties({}, { ...own, ...Object.getOwnPropertyDescriptors(keywords) }) as T
}
