import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type CachedPage, pageCache } from '../../src/resources/reads/page-cache.ts'

const page = (characters: number): CachedPage => ({
  text: 'x'.repeat(characters),
  etag: 'W/"x"',
  link: '',
  query: { filters: [], order: [], after: null, backwards: false, limit: 1 },
  marks: [],
  asOf: null,
  isPlain: true,
})

describe('pageCache', () => {
  it('returns the page cached last for a URL', () => {
    const pages = pageCache()
    const [first, second] = [page(1), page(2)]
    assert.equal(pages.set('/a', first), first)
    assert.equal(pages.get('/a'), first)
    assert.equal(pages.get('/b'), undefined)
    pages.set('/a', second)
    assert.equal(pages.get('/a'), second)
  })

  it('evicts the least recently used page beyond four million characters', () => {
    const pages = pageCache()
    for (const name of ['/a', '/b', '/c']) pages.set(name, page(1_200_000))
    pages.get('/a')
    pages.set('/d', page(1_200_000))
    assert.deepEqual(
      ['/a', '/b', '/c', '/d'].map((url) => pages.get(url) !== undefined),
      [true, false, true, true],
    )
  })

  it('counts a page only once if it is cached again, and counts the characters of URLs', () => {
    const pages = pageCache()
    pages.set('/other', page(1_200_000))
    for (let turn = 0; turn < 10; turn++) pages.set('/same', page(1_200_000))
    assert.ok(pages.get('/other') && pages.get('/same'))
    for (let at = 0; at < 600; at++) pages.set(`/${at}?x=${'x'.repeat(8_000)}`, page(2))
    assert.equal(pages.get('/other'), undefined)
  })

  it('does not cache a page larger than the whole cache', () => {
    const pages = pageCache()
    const large = page(4_100_000)
    assert.equal(pages.set('/large', large), large)
    assert.equal(pages.get('/large'), undefined)
  })
})
