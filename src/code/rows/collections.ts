import type { Collection, CollectionOptions, Declaration, Served } from '../../resources/declaration.ts'
import { servedResource } from '../../resources/serve.ts'
import type { AccountRules } from '../accounts.ts'
import { callerCalls } from './as-caller.ts'
import { serviceCalls } from './as-service.ts'
import type { RowCalls } from './row-calls.ts'
import { conditionReader } from './row-conditions.ts'

/** The methods of a collection that are available to the author's code. */
export interface CodeCollection {
  served: Served
  asService: RowCalls
  asCaller: RowCalls
}

/** Finds the collection that the author's code has passed to a call. */
export type CollectionOf = (of: unknown) => CodeCollection

/** The options of all collections. */
export type CodeCollectionOptions = Omit<CollectionOptions, 'guard'> & { accounts: AccountRules }

/** Returns a function that finds the collections of a service. Each collection is prepared on first use. */
export function codeCollections(options: CodeCollectionOptions, all: readonly Declaration[]): CollectionOf {
  const prepared = new Map<string, CodeCollection>()
  return (of) => {
    const path = (of as Partial<Collection> | undefined)?.declaration?.path
    const ready = path === undefined ? undefined : prepared.get(path)
    if (ready) return ready
    const declaration = all.find((one) => one.path === path)
    if (path === undefined || declaration === undefined) {
      throw new TypeError(`The first argument must be a collection of this service, not ${path ?? String(of)}`)
    }
    const added = codeCollection(declaration, { ...options, related: { all, served: all } })
    prepared.set(path, added)
    return added
  }
}

function codeCollection(declaration: Declaration, options: CodeCollectionOptions): CodeCollection {
  const { ofService, ofCaller } = options.accounts.codeGuardsOf(declaration)
  const served = servedResource(declaration, { ...options, guard: ofService }, '')
  const conditions = conditionReader(served, options.related?.all ?? [])
  return {
    served,
    asService: serviceCalls(served, options, conditions),
    asCaller: callerCalls({ ...served, guard: ofCaller }, conditions),
  }
}
