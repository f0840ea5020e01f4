import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Cursor,
  decodeCursor,
  encodeCursor,
  linkHeader,
  listFingerprint,
  pageSizeOf,
} from '../../src/http/pagination.ts'
import { Problem } from '../../src/http/problems/problem.ts'

const mark = listFingerprint([{ genre: 'novel' }, ['title']])
const refused = (error: unknown) =>
  error instanceof Problem && error.code === 'INVALID_INPUT' && error.errors?.[0]?.field === 'cursor'

describe('pageSizeOf', () => {
  it('is 50 by default and at most 200', () => {
    assert.deepEqual([undefined, 1, 50, 200, 201, 1_000_000].map(pageSizeOf), [50, 1, 50, 200, 200, 200])
  })
})

describe('a cursor', () => {
  const cursors: Cursor[] = [
    { after: [7], backwards: false },
    { after: ['emma', 7], backwards: true },
    { after: [12.5, '', 'ä"\\\u0001🙂', 1], backwards: false },
  ]

  it('decodes to the value that was encoded, and is safe in a URL', () => {
    for (const cursor of cursors) {
      const text = encodeCursor(mark, cursor)
      assert.match(text, /^[A-Za-z0-9_-]+$/)
      assert.deepEqual(decodeCursor(text, mark, cursor.after.length), cursor)
    }
  })

  it('is rejected for a list with a different filter or sort order', () => {
    const text = encodeCursor(mark, { after: [7], backwards: false })
    for (const parts of [
      [{ genre: 'poem' }, ['title']],
      [{ genre: 'novel' }, ['id']],
      [{}, []],
    ]) {
      assert.throws(() => decodeCursor(text, listFingerprint(parts), 1), refused)
    }
  })

  it('is rejected if it is malformed or was altered', () => {
    const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const whole = encodeCursor(mark, { after: ['emma', 7], backwards: false })
    const wrong = [
      'x',
      '!!!',
      '7',
      encode(null),
      encode(7),
      encode([]),
      encode({}),
      encode([mark, 0]),
      encode([mark, 0, 7]),
    ]
    const types = [
      [null, 7],
      [true, 7],
      [{}, 7],
      [[1], 7],
      ['emma', null],
      ['emma', 7, 8],
    ]
    for (const text of [
      ...wrong,
      ...types.map((after) => encode([mark, 0, ...after])),
      whole.slice(0, -3),
      `A${whole}`,
    ]) {
      assert.throws(() => decodeCursor(text, mark, 2), refused, text)
    }
  })
})

describe('listFingerprint', () => {
  it('returns the same fingerprint for the same parts, and a different one if their order changes', () => {
    assert.equal(listFingerprint([['a'], ['b']]), listFingerprint([['a'], ['b']]))
    assert.notEqual(listFingerprint([['a'], ['b']]), listFingerprint([['b'], ['a']]))
  })
})

describe('linkHeader (RFC 8288)', () => {
  it('always has `first`, but has `prev` and `next` only if those pages exist', () => {
    assert.equal(linkHeader('/books', {}, {}), '</books>; rel="first"')
    assert.equal(
      linkHeader('/v1/books', { limit: 2 }, { next: 'bbb', prev: 'aaa' }),
      '</v1/books?limit=2>; rel="first", </v1/books?limit=2&cursor=aaa>; rel="prev", </v1/books?limit=2&cursor=bbb>; rel="next"',
    )
  })

  it('keeps the query except for the cursor, and encodes values that could end the link (T-HTTP-10)', () => {
    const query = { genre: 'a>; rel="next"\r\n', cursor: 'old', sort: undefined, q: 'ä&b=c' }
    const header = linkHeader('/books', query, { next: 'new' })
    const [first = '', next = ''] = header.split(', ')
    assert.equal(header.split(', ').length, 2)
    assert.match(header, /^[\x21-\x7e ]+$/)
    for (const [link, rel] of [
      [first, 'first'],
      [next, 'next'],
    ] as const) {
      const [, target = '', name] = /^<([^>]+)>; rel="(\w+)"$/.exec(link) ?? []
      assert.equal(name, rel)
      const search = new URL(target, 'https://plinth.test').searchParams
      assert.equal(search.get('genre'), query.genre)
      assert.equal(search.get('q'), query.q)
      assert.equal(search.get('cursor'), rel === 'next' ? 'new' : null)
      assert.equal(search.has('sort'), false)
    }
  })
})
