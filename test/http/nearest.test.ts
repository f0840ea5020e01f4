import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { nearest } from '../../src/http/nearest.ts'

describe('nearest', () => {
  const known = ['limit', 'cursor', 'sort', 'fields', 'q', 'updatedAfter', 'minPrice', 'maxPrice']
  const cases: [name: string, expected: string | undefined][] = [
    ['limt', 'limit'],
    ['limits', 'limit'],
    ['limti', 'limit'],
    ['LIMIT', 'limit'],
    ['minprice', 'minPrice'],
    ['updatedAfte', 'updatedAfter'],
    ['field', 'fields'],
    ['genre', undefined],
    ['page', undefined],
    ['', 'q'],
    ['x'.repeat(5_000), undefined],
  ]
  for (const [name, expected] of cases) {
    it(`returns ${expected} for '${name.slice(0, 20)}'`, () => assert.equal(nearest(name, known), expected))
  }

  it('returns undefined if there are no known names', () => assert.equal(nearest('limit', []), undefined))
})
