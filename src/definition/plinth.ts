import type { TObject } from 'typebox'
import type { ClaimsOf } from '../resources/access/rules.ts'
import { collectionWith } from '../resources/collection.ts'
import type { Collection } from '../resources/declaration.ts'
import type { ResourceOptions } from '../resources/resource-options.ts'
import { service } from './service.ts'

export interface PlinthOptions<Claims extends object> {
  /** Computes what access rules know about a caller besides its id, role and scopes. Must be a pure function. */
  claims: ClaimsOf<Claims>
}

/** Returns `collection` and `service` for access rules that use claims, typed by them. */
export function plinth<Claims extends object>({ claims }: PlinthOptions<Claims>) {
  return {
    collection: <B extends TObject>(options: ResourceOptions<B, Claims>): Collection<B> =>
      collectionWith(options, claims),
    service,
  }
}
