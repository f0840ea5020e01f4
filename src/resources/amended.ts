import type { TSchema } from 'typebox'

/** Returns a schema with other keywords; the library's non-enumerable properties on it are preserved. */
export function amended<T extends TSchema>(schema: T, keywords: object): T {
  const own = Object.getOwnPropertyDescriptors(schema)
  return Object.defineProperties({}, { ...own, ...Object.getOwnPropertyDescriptors(keywords) }) as T
}
