import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../../http/policies/authenticate.ts'
import { cachePrivately } from '../../http/policies/caching.ts'
import { passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import { listConditions } from '../computed/list-conditions.ts'
import { todayIn } from '../conditions/today.ts'
import type { Relation, Served } from '../declaration.ts'
import type { QueryGrammar } from '../queries/grammar.ts'
import { sortedRelations } from '../queries/list-order.ts'
import { alternativeRelations } from '../queries/read-query.ts'
import {
  type Reached,
  type ReachedRows,
  type RelatedFilter,
  readRelatedFilters,
  restrictRelated,
} from '../queries/related-filters.ts'
import { requireReadable } from '../relations/readable.ts'
import { allOf } from './rules.ts'

/** The rows that a list request can return. */
export interface Visible {
  /**
   * The test that combines the list's access rules, the filters on related rows and the access rules of the related
   * rows.
   */
  read: RowTest
  /** The filters on related rows. The list's cursors are valid only with the same filters. */
  related: readonly RelatedFilter[]
  /** The relations that the query follows, each with a test for the rows that the caller can read. */
  reached: Reached
  /** True if `sort` names a field of related rows. */
  isSortedByRelated: boolean
}

const none = { related: [], reached: new Map(), isSortedByRelated: false }
export const allVisible: Visible = { ...none, read: passesAll }

/**
 * Returns the function that determines which rows a list request can return; its result is undefined for all rows. It
 * throws INVALID_INPUT for invalid filters on related rows, and 401 or 403 if the query follows a relation that the
 * caller cannot read.
 */
export function visibleRows(served: Served, relations: readonly Relation[], grammar: QueryGrammar) {
  const { accessOf, accessTo } = served
  const reach = async (
    { declaration }: Relation,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<ReachedRows> => {
    const access = accessTo(declaration)
    if (access) cachePrivately(reply)
    return {
      read: access ? (await access(callerOf(request))).read : passesAll,
      resolve: listConditions(declaration.computed, served)?.resolve ?? ((test) => test),
      day: declaration.computed.usesToday ? todayIn(served)() : undefined,
    }
  }
  return (request: FastifyRequest, reply: FastifyReply): Promise<Visible> | undefined => {
    const query = request.query as Record<string, unknown>
    const { related, followed, isSortedByRelated } = mayFollow(query) ? followedBy(query, relations, grammar) : nothing
    for (const { declaration } of followed) requireReadable(declaration, request)
    if (followed.length === 0) return accessOf?.(callerOf(request)).then(({ read }) => ({ ...none, read }))
    return Promise.all(followed.map(async (one) => [one.name, await reach(one, request, reply)] as const)).then(
      async (entries) => {
        const reached = new Map(entries)
        let read = accessOf ? (await accessOf(callerOf(request))).read : passesAll
        for (const { step, test } of related) {
          read = allOf(read, restrictRelated({ along: step, related: test }, reached))
        }
        return { read, related, reached, isSortedByRelated }
      },
    )
  }
}

const isDotted = (text: unknown): text is string => typeof text === 'string' && text.includes('.')

const nothing = { related: [], followed: [], isSortedByRelated: false }

/** Returns whether a query may follow a relation; false means that it certainly follows none. */
function mayFollow(query: Readonly<Record<string, unknown>>): boolean {
  for (const name in query) if (name.includes('.')) return true
  return isDotted(query.sort) || isDotted(query.or)
}

/** Returns the filters on related rows, and the relations that a query follows in filters, in `or` and in `sort`. */
function followedBy(query: Record<string, unknown>, relations: readonly Relation[], grammar: QueryGrammar) {
  const { sort, or } = query
  const filters = grammar.related
  const related = readRelatedFilters(query, filters)
  const sorted = isDotted(sort) ? sortedRelations(sort, relations) : []
  const names = new Set(related.map(({ step }) => step.name))
  const alternatives = grammar.hasAlternatives && isDotted(or) ? alternativeRelations(or) : []
  for (const name of alternatives) if (filters.has(name)) names.add(name)
  const followed = relations.filter((one) => !one.isMany && (names.has(one.name) || sorted.includes(one)))
  return { related, followed, isSortedByRelated: sorted.length > 0 }
}
