import type { FastifyReply, FastifyRequest } from 'fastify'
import { addLink, addVary } from '../http/headers/vary.ts'
import { encodeCursor, linkHeader } from '../http/pagination.ts'
import { weakTag } from '../http/policies/conditional.ts'
import { withListEnvelope } from '../http/policies/list-envelope.ts'
import { isNarrowed, pick, wanted } from '../http/policies/partial-response.ts'
import { applied } from '../http/policies/prefer.ts'
import { requesterOf } from '../http/requester.ts'
import type { Mark } from '../storage/rows/list-query.ts'
import type { ListQuery } from '../storage/rows/page-query.ts'
import type { Row, Rows } from '../storage/rows/rows.ts'
import { cursorOf, type ListRules, parseListQuery, type Query } from './list-query.ts'
import { type CachedPage, pageCache } from './page-cache.ts'

/**
 * Responds with pages of a list and their Link header; rows are neither skipped nor repeated while others write. A page
 * whose rows have not changed since it was built is sent again from the cache.
 */
export function lister(rows: Rows, rules: ListRules, show: (row: Row) => object) {
  const pages = pageCache()
  const make = (request: FastifyRequest, reply: FastifyReply): CachedPage | Promise<CachedPage> => {
    const query = request.query as Query
    const { asked, mark } = parseListQuery(query, rules)
    const tree = isNarrowed(request) ? wanted(query.fields) : null
    const generation = rows.generation()
    // One extra row shows whether there are more.
    const reading = { ...asked, limit: asked.limit + 1 }
    return whenRead(rows.page(reading, requesterFor(request, reply)), (read) => {
      const shown = shownOf(read, asked)
      const cursors = cursorsOf(shown, read.length > asked.limit, asked, (row, backwards) =>
        encodeCursor(mark, { after: cursorOf(row, asked.order, rules), backwards }),
      )
      const link = linkHeader(rules.path, query, cursors)
      const text = JSON.stringify(withListEnvelope(request, pick(shown.map(show), tree), link))
      const marks = read.map(markOf)
      return pages.keep(request.url, { text, etag: weakTag(text), link, query: reading, marks, generation })
    })
  }
  const find = (request: FastifyRequest, reply: FastifyReply): CachedPage | Promise<CachedPage> => {
    const known = pages.of(request.url)
    if (known === undefined) return make(request, reply)
    const generation = rows.generation()
    if (generation !== null && known.generation === generation) return known
    return whenRead(rows.marks(known.query, requesterFor(request, reply)), (marks) => {
      if (!isSame(marks, known.marks)) return make(request, reply)
      known.generation = generation
      return known
    })
  }
  return (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> | undefined => {
    const found = find(request, reply)
    if (request.preferences?.count && isKnown(request)) return counted(rows, found, request, reply)
    if (found instanceof Promise) return found.then((page) => send(reply, page))
    send(reply, found)
    return undefined
  }
}

const requesterFor = (request: FastifyRequest, reply: FastifyReply) => () => requesterOf(request, reply)

/** Exact counts cost as much as the table is long, so they require a token. */
const isKnown = ({ caller }: FastifyRequest): boolean => caller !== null && 'caller' in caller

function send(reply: FastifyReply, { link, etag, text }: CachedPage): FastifyReply {
  // A shared cache must not serve a response without the count to a request for it, or vice versa.
  addVary(reply, 'Prefer')
  return addLink(reply, link).header('etag', etag).header('content-type', 'application/json; charset=utf-8').send(text)
}

/** `Prefer: count=exact` (RFC 7240): adds the total number of matching rows. */
async function counted(
  rows: Rows,
  found: CachedPage | Promise<CachedPage>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const page = await found
  const total = await rows.count(page.query.filters, requesterFor(request, reply))
  applied(reply, 'count=exact')
  return send(reply.header('x-total-count', total), page)
}

const markOf = ({ id, revision }: Row): Mark => ({ id, revision })

/** Uses a synchronous result synchronously: the hottest lists await no promise. */
const whenRead = <T, R>(read: T | Promise<T>, use: (read: T) => R | Promise<R>): R | Promise<R> =>
  read instanceof Promise ? read.then(use) : use(read)

function isSame(marks: CachedPage['marks'], known: CachedPage['marks']): boolean {
  return (
    marks.length === known.length &&
    marks.every(({ id, revision }, at) => id === known[at]?.id && revision === known[at]?.revision)
  )
}

/** The rows of a page in list order, without the extra row that shows that there are more. */
function shownOf(read: Row[], { limit, backwards }: ListQuery): Row[] {
  const shown = read.length > limit ? read.slice(0, limit) : read
  return backwards ? shown.toReversed() : shown
}

type CursorAt = (row: Row, backwards: boolean) => string

function cursorsOf(shown: Row[], more: boolean, { after, backwards }: ListQuery, at: CursorAt) {
  const [first, last] = [shown[0], shown.at(-1)]
  const hasNext = backwards || more
  const hasPrev = backwards ? more : after !== null
  return {
    ...(hasNext && last && { next: at(last, false) }),
    ...(hasPrev && first && { prev: at(first, true) }),
  }
}
