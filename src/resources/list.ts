import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ListQuery } from '../db/page.ts'
import type { Row, Rows } from '../db/rows.ts'
import { weakTag } from '../http/conditional.ts'
import { isNarrowed } from '../http/fields.ts'
import { encodeCursor, linkHeader } from '../http/paging.ts'
import { askedOf, type ListRules, placeOf, type Query } from './list-query.ts'
import { type Page, pagesKept } from './pages.ts'

/**
 * Answers with pages of a list and their Link header; rows neither skip nor repeat while others are written. A page
 * whose rows have not changed since it was made is sent again as it is.
 */
export function lister(rows: Rows, rules: ListRules, show: (row: Row) => object) {
  const pages = pagesKept()
  const fresh = (request: FastifyRequest) => {
    const query = request.query as Query
    const { asked, mark } = askedOf(query, rules)
    // One row more than is shown tells whether there are more.
    const reading = { ...asked, limit: asked.limit + 1 }
    return whenRead(rows.page(reading), (read): Made => {
      const shown = shownOf(read, asked)
      const cursors = cursorsOf(shown, read.length > asked.limit, asked, (row, backwards) =>
        encodeCursor(mark, { after: placeOf(row, asked.order, rules), backwards }),
      )
      return { items: shown.map(show), link: linkHeader(rules.path, query, cursors), query: reading, marks: read }
    })
  }
  const whole = (request: FastifyRequest): Page | Promise<Page> =>
    whenRead(fresh(request), ({ items, link, query, marks }) => {
      const text = JSON.stringify(items)
      return pages.keep(request.url, { text, etag: weakTag(text), link, query, marks })
    })
  const page = (request: FastifyRequest): Page | Promise<Page> => {
    const known = pages.of(request.url)
    if (known === undefined) return whole(request)
    return whenRead(rows.marks(known.query), (marks) => (isSame(marks, known.marks) ? known : whole(request)))
  }
  return (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> | undefined => {
    const made = isNarrowed(request) ? fresh(request) : page(request)
    const counts = wantsCount(request)
    if (!(made instanceof Promise) && !counts) return void send(reply, made)
    return Promise.resolve(made).then(async (ready) => {
      if (counts) reply.header('x-total-count', await rows.count(ready.query.filters))
      if (counts) reply.header('preference-applied', 'count=exact')
      return send(reply, ready)
    })
  }
}

interface Made extends Omit<Page, 'text' | 'etag'> {
  items: object[]
}

function send(reply: FastifyReply, made: Page | Made): FastifyReply {
  reply.header('link', made.link)
  if ('items' in made) return reply.send(made.items)
  return reply.header('etag', made.etag).header('content-type', 'application/json; charset=utf-8').send(made.text)
}

/** What is there at once is used at once: the hottest lists wait for no promise. */
const whenRead = <T, R>(read: T | Promise<T>, use: (read: T) => R | Promise<R>): R | Promise<R> =>
  read instanceof Promise ? read.then(use) : use(read)

function isSame(marks: Page['marks'], known: Page['marks']): boolean {
  if (marks.length !== known.length) return false
  return marks.every(({ id, revision }, at) => id === known[at]?.id && revision === known[at]?.revision)
}

/** The rows of a page in the order of the list, without the one that only tells that there are more. */
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

/** `Prefer: count=exact` (RFC 7240): the number of all matching rows. */
function wantsCount({ headers }: FastifyRequest): boolean {
  return headers.prefer !== undefined && /(^|[,;\s])count=exact([,;\s]|$)/.test(String(headers.prefer))
}
