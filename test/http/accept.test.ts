import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { acceptsExactly, quality } from '../../src/http/headers/accept.ts'

describe('quality (RFC 9110 §12.5.1)', () => {
  const weights: [accept: string, type: string, weight: number][] = [
    ['text/html', 'text/html', 1],
    ['text/html;q=0.3', 'text/html', 0.3],
    ['text/html ; q=0.3 ; level=1', 'text/html', 0.3],
    ['TEXT/HTML;Q=0.3', 'text/html', 0.3],
    ['text/*;q=0.4', 'text/html', 0.4],
    ['*/*;q=0.2', 'text/html', 0.2],
    ['*/*;q=0.2, text/*;q=0.4, text/html;q=0.6', 'text/html', 0.6],
    ['text/html;q=0.6, text/*;q=0.4, */*;q=0.2', 'text/plain', 0.4],
    ['text/html;q=0, */*', 'text/html', 0],
    ['text/plain', 'text/html', 0],
    ['', 'text/html', 0],
    [',,text/html,,', 'text/html', 1],
    ['text/html;q=7', 'text/html', 1],
    ['text/html;q=-1', 'text/html', 0],
    ['text/html;q=x', 'text/html', 0],
    ['application/json', 'application/problem+json', 0],
    ['text/html;note="a,b;q=0", */*;q=0.1', 'text/html', 1],
    ['text/html;level=1;q=0, text/html;q=0.3', 'text/html', 0.3],
    ['text/html;note="never closed, text/plain', 'text/plain', 0],
  ]
  for (const [accept, type, weight] of weights) {
    it(`is ${weight} for ${type} in "${accept}"`, () => assert.equal(quality(accept, type), weight))
  }
})

describe('acceptsExactly', () => {
  it('returns true only for the exact media type, not for a wildcard or a weight of 0', () => {
    assert.equal(acceptsExactly('text/html, application/json;q=0.1', 'application/json'), true)
    for (const accept of ['*/*', 'application/*', 'application/json;q=0', 'application/json5', '']) {
      assert.equal(acceptsExactly(accept, 'application/json'), false, accept)
    }
  })
})
