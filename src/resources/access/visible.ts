import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../../http/policies/authenticate.ts'
import { cachePrivately } from '../../http/policies/caching.ts'
import { passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import { listConditions } from '../computed/list-conditions.ts'
import type { Relation, Served } from '../declaration.ts'
import {
  hasRelatedFilters,
  type RelatedFilter,
  readRelatedFilters,
  relatedFiltersOf,
  relatedFilterTest,
} from '../queries/related-filters.ts'
import { requireReadable } from '../relations/readable.ts'
import { allOf } from './rules.ts'

/** The rows that a list request can return. */
export interface Visible {
  /** Combines the list's access rules, the filters along relations and the access rules of the related rows. */
  read: RowTest
  /** The filters alone, to which the list's cursors are bound. */
  related: readonly RelatedFilter[]
}

export const allVisible: Visible = { read: passesAll, related: [] }

/**
 * Returns the function that determines which rows a list request can return; undefined means all rows. Throws
 * INVALID_INPUT for invalid filters along relations, and 401 or 403 for filters along a relation that the caller cannot
 * read.
 */
export function visibleRows(served: Served, relations: readonly Relation[]) {
  const { declaration, accessOf, accessTo } = served
  const filters = relatedFiltersOf(declaration, relations)
  const withRelated = async (
    request: FastifyRequest,
    reply: FastifyReply,
    related: readonly RelatedFilter[],
  ): Promise<Visible> => {
    let read = accessOf ? (await accessOf(callerOf(request))).read : passesAll
    for (const filter of related) {
      const access = accessTo(filter.declaration)
      if (access) cachePrivately(reply)
      const readable = access ? (await access(callerOf(request))).read : passesAll
      const { resolve = (test: RowTest) => test } = listConditions(filter.declaration.computed, served) ?? {}
      read = allOf(read, relatedFilterTest({ ...filter, test: resolve(filter.test) }, readable))
    }
    return { read, related }
  }
  return (request: FastifyRequest, reply: FastifyReply): Promise<Visible> | undefined => {
    const query = request.query as Record<string, unknown>
    const related = filters.size > 0 && hasRelatedFilters(query) ? readRelatedFilters(query, filters) : []
    for (const filter of related) requireReadable(filter.declaration, request)
    if (related.length > 0) return withRelated(request, reply, related)
    return accessOf?.(callerOf(request)).then(({ read }) => ({ read, related }))
  }
}
