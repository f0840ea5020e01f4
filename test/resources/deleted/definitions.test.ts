import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { builtIn } from '../../../src/catalog/service.ts'
import { collection, Title, Type } from '../../../src/plinth.ts'

const declared = (options: object) => () =>
  collection({ path: '/notes', noun: 'note', body: Type.Object({ title: Title }), ...options })

describe('the `keepDeleted` option', () => {
  for (const keepDeleted of ['1 hour', '48 hours', '1 day', '30 days', '365 days'] as const)
    it(`accepts ${keepDeleted}`, () => assert.ok(declared({ keepDeleted })()))

  for (const keepDeleted of ['', '0 days', '366 days', '30', '30 d', '1.5 days', '-1 days', 30, true, null])
    it(`rejects ${JSON.stringify(keepDeleted)}`, () =>
      assert.throws(declared({ keepDeleted }), /keepDeleted must be from '1 hour' to '365 days', such as '30 days'/))

  it('is rejected for a collection without the operations `read` and `list`', () =>
    assert.throws(
      declared({ keepDeleted: '1 day', operations: ['create', 'remove'] }),
      /keepDeleted needs the operation/,
    ))

  it('is set for the built-in products and books, but not for users', () => {
    const kept = builtIn.collections.filter(({ declaration }) => declaration.keepDeletedMs !== undefined)
    assert.deepEqual(
      kept.map(({ declaration }) => declaration.name),
      ['products', 'books'],
    )
  })
})
