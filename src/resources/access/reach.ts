import type { Caller } from '../../http/policies/authenticate.ts'
import { passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import type { CollectionOptions, Declaration } from '../declaration.ts'
import { accessOf } from './enforce.ts'
import type { AccessOf, Reach } from './rules.ts'

/**
 * Returns the function that evaluates the rules of several collections for a caller. Its result is another function,
 * which returns the test of a collection's readable rows. Undefined if none of the collections has rules.
 */
export function reachOf(
  declarations: readonly Declaration[],
  options: Pick<CollectionOptions, 'factsOf' | 'now' | 'zone'>,
): ((caller: Caller) => Promise<Reach>) | undefined {
  const rules = new Map<string, AccessOf>()
  for (const declaration of declarations) {
    const access = accessOf(declaration, options)
    if (access) rules.set(declaration.path, access)
  }
  if (rules.size === 0) return undefined
  return async (caller) => {
    const tests = new Map<string, RowTest>()
    for (const [path, access] of rules) tests.set(path, (await access(caller)).read)
    return ({ path }) => tests.get(path) ?? passesAll
  }
}
