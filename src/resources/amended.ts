import type { TSchema } from 'typebox'

/** A schema with other keywords; what the library keeps on it out of sight stays. */
export function amended<T extends TSchema>(schema: T, keywords: object): T {
  const own = Object.getOwnPropertyDescriptors(schema)
  return Object.defineProperties({}, { ...own, ...Object.getOwnPropertyDescriptors(keywords) }) as T
}
