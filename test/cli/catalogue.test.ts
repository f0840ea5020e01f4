import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { describe, it } from 'node:test'
import { books } from '../../src/catalog/books.ts'
import { products } from '../../src/catalog/products.ts'
import { users } from '../../src/catalog/users.ts'
import { catalogue } from '../../src/cli/demo/catalogue.ts'
import { inputValidator } from '../../src/http/policies/body-parsing.ts'

const sample = catalogue()
const resources = { products, books, users }
const digest = (value: unknown) => hash('sha256', JSON.stringify(value), 'hex')
const distinct = (values: unknown[]) => new Set(values).size

describe('the sample catalog', () => {
  it('has 2,000 products, 500 books and 500 users', () => {
    assert.deepEqual(
      Object.entries(sample).map(([name, items]) => [name, items.length]),
      [
        ['products', 2_000],
        ['books', 500],
        ['users', 500],
      ],
    )
  })

  it('depends only on the seed, and is the same in every release', () => {
    assert.deepEqual(catalogue(7), catalogue(7))
    assert.notEqual(digest(catalogue(7)), digest(catalogue(8)))
    assert.equal(digest(sample), '640b6f5edf90297fd2c9bfd897563c294bc677a05506df76a05f3800c3a6d601')
  })

  for (const [name, { declaration }] of Object.entries(resources)) {
    it(`contains only ${name} that the API accepts unchanged`, () => {
      const check = inputValidator(declaration.body, 'body')
      for (const item of sample[name as keyof typeof resources]) {
        const sent = structuredClone(item)
        const result = check(sent)
        assert.equal('error' in result ? JSON.stringify([item, result.error]) : null, null)
        assert.deepEqual(sent, item, 'nothing is trimmed')
        assert.deepEqual(Object.keys(item).sort(), Object.keys(declaration.body.properties).sort())
      }
    })
  }

  it('has no duplicate product names, book titles or email addresses', () => {
    assert.equal(distinct(sample.products.map(({ name }) => name.toLowerCase())), 2_000)
    assert.equal(distinct(sample.books.map(({ title }) => title.toLowerCase())), 500)
    assert.equal(distinct(sample.users.map(({ email }) => email.toLowerCase())), 500)
  })

  it('has varied prices and genres, and authors with several books', () => {
    const prices = sample.products.map(({ price }) => price)
    assert.ok(distinct(prices) > 300)
    assert.ok(Math.min(...prices) > 1 && Math.max(...prices) < 2_000)
    assert.ok(distinct(sample.books.map(({ genre }) => genre)) >= 10)
    const authors = Object.values(Object.groupBy(sample.books, ({ author }) => author))
    assert.ok(authors.length > 100)
    assert.ok(authors.some((written) => (written?.length ?? 0) >= 5))
    assert.ok(sample.books.some(({ author }) => /[^\p{ASCII}]/u.test(author)))
  })

  it('uses only example domains (RFC 2606) and phone numbers reserved for fiction', () => {
    for (const { email, phone } of sample.users) {
      assert.match(email, /^[a-z0-9.]+@(mail\.)?example\.(com|org|net)$/)
      assert.match(phone, /^\+1 \(\d{3}\) 555-01\d\d$|^\+44 (20 7946|131 496|29 2018) 0\d{3}$/)
    }
  })
})
