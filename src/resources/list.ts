import type { FastifyReply, FastifyRequest } from 'fastify'
import type { CachedResponses } from '../http/fast-path/cached-response.ts'
import { addLink, addVary } from '../http/headers/vary.ts'
import { encodeCursor, linkHeader } from '../http/pagination.ts'
import { hasTokenInQuery } from '../http/policies/authorize.ts'
import { weakTag } from '../http/policies/conditional.ts'
import { withListEnvelope } from '../http/policies/list-envelope.ts'
import { isNarrowed, parseFields, pick } from '../http/policies/partial-response.ts'
import { applied } from '../http/policies/prefer.ts'
import { requesterOf } from '../http/requester.ts'
import type { Mark } from '../storage/rows/list-query.ts'
import type { Filter, ListQuery } from '../storage/rows/page-query.ts'
import { hasRelation, passesAll } from '../storage/rows/row-test.ts'
import type { Row, Rows } from '../storage/rows/rows.ts'
import { readable } from './access/enforce.ts'
import { allVisible, type Visible, visibleRows } from './access/visible.ts'
import type { Served } from './declaration.ts'
import { type ListRules, parseListQuery, type Query } from './list-parameters.ts'
import { grammarOf, type QueryGrammar } from './queries/grammar.ts'
import { cursorOf, removeTerms } from './queries/list-order.ts'
import { type CachedPage, cachedPages, isPageUnchanged, sameMarks } from './reads/page-cache.ts'
import type { Expand, ReadableRows } from './relations/reference.ts'

export interface ListParts {
  /** Returns the filters and the path of a nested list, which contains only rows that refer to the row in its path. */
  within?: (request: FastifyRequest) => { filters: readonly Filter[]; path: string }
  /** Parses the `expand` parameter. */
  expand?: (text: string, request: FastifyRequest, reply: FastifyReply) => Expand
}

type PendingPage = CachedPage | Promise<CachedPage>

/**
 * The handler of a list. `cached` finds the pages that can be sent without running the handler; undefined if the
 * handler must run for every request.
 */
interface Lister {
  handler: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> | undefined
  cached: CachedResponses | undefined
}

/**
 * Returns the handler of a list. It sends pages with a Link header; rows added or deleted between two requests do not
 * shift the pages. A cached page is sent while its rows are unchanged or, if it depends on related rows, until the next
 * write of any kind.
 */
export function lister(
  served: Served,
  rules: ListRules,
  serialize: (row: Row) => object,
  parts: ListParts = {},
): Lister {
  const { rows, declaration, accessOf } = served
  const grammar = grammarOf(rules)
  const build = pageBuilder(served, rules, grammar, serialize, parts)
  const pages = cachedPages(declaration.computed, served)
  const visibleTo = visibleRows(served, rules.relations ?? [], grammar)
  const pageFor = (request: FastifyRequest, reply: FastifyReply, visible = allVisible): PendingPage => {
    const { expand: text } = request.query as Query
    const expansion = text ? parts.expand?.(text, request, reply) : undefined
    // Related rows may change even if the page's own rows do not.
    const dependsOnRelated = expansion !== undefined || visible.isSortedByRelated
    const find = (readableRelated?: ReadableRows): PendingPage => {
      const isCacheable = (expansion?.isCacheable ?? true) && (!dependsOnRelated || rows.changes !== null)
      const key = isCacheable ? pages.keyOf(request, visible, readableRelated) : null
      const make = () =>
        mapResult(build(request, reply, visible, { expansion, readableRelated }), (page) => pages.set(key, page))
      const cached = pages.get(key)
      if (cached === undefined) return make()
      const dependsOnOthers = dependsOnRelated || visible.reached.size > 0 || hasRelation(visible.read)
      if (isPageUnchanged(cached, dependsOnOthers ? rows.changes?.last() : rows.changes?.lastOf(declaration.table)))
        return cached
      if (dependsOnRelated) return make()
      const asOf = lastChange(rows)
      return mapResult(rows.marks(cached.query, requesterFor(request, reply)), (marks) => {
        if (!sameMarks(marks, cached.marks)) return make()
        cached.asOf = asOf
        return cached
      })
    }
    return expansion?.readable()?.then(find) ?? find()
  }
  const find = (url: string) => {
    const page = pages.get(url)
    return page?.isPlain && isPageUnchanged(page, rows.changes?.lastOf(declaration.table)) ? page : undefined
  }
  const handler: Lister['handler'] = (request, reply) => {
    const visible = visibleTo(request, reply)
    const page = visible ? visible.then((rows) => pageFor(request, reply, rows)) : pageFor(request, reply)
    if (request.preferences?.count && hasToken(request)) return sendWithCount(rows, page, request, reply)
    if (page instanceof Promise) return page.then((sent) => send(reply, sent))
    send(reply, page)
    return undefined
  }
  return { handler, cached: accessOf || rows.changes === null ? undefined : { by: 'target', find } }
}

const lastChange = ({ changes }: Rows): number | null => changes?.last() ?? null

/** How `expand` adds related rows to a page. */
interface Included {
  expansion: Expand | undefined
  readableRelated: ReadableRows | undefined
}

/** Returns the function that reads a page. */
function pageBuilder(
  { rows, declaration, listConditions }: Served,
  rules: ListRules,
  grammar: QueryGrammar,
  serialize: (row: Row) => object,
  { within = () => ({ filters: [], path: rules.path }) }: ListParts,
) {
  return (
    request: FastifyRequest,
    reply: FastifyReply,
    { read, related, reached, isSortedByRelated }: Visible,
    { expansion, readableRelated }: Included,
  ): PendingPage => {
    const query = request.query as Query
    const { filters, path } = within(request)
    const { listQuery: sent, mark } = parseListQuery(query, rules, grammar, {
      ...{ collection: declaration.path, filters },
      ...{ related, reached },
    })
    const listQuery = readable(listConditions?.resolveQuery(sent) ?? sent, read, declaration)
    const tree = isNarrowed(request) ? parseFields(query.fields) : null
    const asOf = lastChange(rows)
    // One extra row tells whether there is another page.
    const pageQuery = { ...listQuery, limit: listQuery.limit + 1 }
    return mapResult(rows.page(pageQuery, requesterFor(request, reply)), (rowsRead) => {
      const items = pageItems(rowsRead, listQuery)
      const cursors = cursorsOf(items, rowsRead.length > listQuery.limit, listQuery, (row, backwards) =>
        encodeCursor(mark, { after: cursorOf(row, listQuery.order, rules), backwards }),
      )
      const link = linkHeader(path, query, cursors)
      if (isSortedByRelated) removeTerms(rowsRead, listQuery.order)
      const pageOf = (serialized: object[]): CachedPage => {
        const text = JSON.stringify(withListEnvelope(request, pick(serialized, tree), link))
        // The cursors contain values of related rows, which may change while the items do not.
        const etag = weakTag(isSortedByRelated ? text + link : text)
        const isOfTable = expansion === undefined && read === passesAll && reached.size === 0 && !isSortedByRelated
        const isPlain = isOfTable && !hasTokenInQuery(request.url)
        return { text, etag, link, query: pageQuery, marks: rowsRead.map(markOf), asOf, isPlain }
      }
      if (expansion === undefined) return pageOf(items.map(serialize))
      const more = expansion.membersOf(items, readableRelated)
      return more.then((membersOf) => pageOf(items.map((row) => ({ ...serialize(row), ...membersOf(row) }))))
    })
  }
}

const requesterFor = (request: FastifyRequest, reply: FastifyReply) => () => requesterOf(request, reply)

/** Returns whether a request has a valid token. Exact counts require one, because they may read the whole table. */
const hasToken = ({ caller }: FastifyRequest): boolean => caller !== null && 'caller' in caller

function send(reply: FastifyReply, { link, etag, text }: CachedPage): FastifyReply {
  // A shared cache must not reuse a response without the count for a request that asks for it, or vice versa.
  addVary(reply, 'Prefer')
  return addLink(reply, link).header('etag', etag).header('content-type', 'application/json; charset=utf-8').send(text)
}

/** Handles `Prefer: count=exact` (RFC 7240): adds the total number of matching rows. */
async function sendWithCount(
  rows: Rows,
  pending: PendingPage,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const page = await pending
  const total = await rows.count(page.query, requesterFor(request, reply))
  applied(reply, 'count=exact')
  return send(reply.header('x-total-count', total), page)
}

const markOf = ({ id, revision }: Row): Mark => ({ id, revision })

/** Maps a value or a promise. A synchronous value is mapped synchronously, which spares frequent requests an await. */
const mapResult = <T, R>(result: T | Promise<T>, map: (result: T) => R | Promise<R>): R | Promise<R> =>
  result instanceof Promise ? result.then(map) : map(result)

/** Returns the rows of a page in list order, without the extra row. */
function pageItems(rowsRead: Row[], { limit, backwards }: ListQuery): Row[] {
  const items = rowsRead.length > limit ? rowsRead.slice(0, limit) : rowsRead
  return backwards ? items.toReversed() : items
}

type CursorAt = (row: Row, backwards: boolean) => string

function cursorsOf(items: Row[], more: boolean, { after, backwards }: ListQuery, at: CursorAt) {
  const [first, last] = [items[0], items.at(-1)]
  const hasNext = backwards || more
  const hasPrev = backwards ? more : after !== null
  return {
    ...(hasNext && last && { next: at(last, false) }),
    ...(hasPrev && first && { prev: at(first, true) }),
  }
}
