import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { moduleState } from '../../src/cli/module-state.ts'

const namesIn = (source: string) => moduleState(source).map(({ name }) => name)

describe('moduleState', () => {
  it('finds module-level variables, with their line numbers', () => {
    const source = 'import x from "x"\n\nlet counter = 0\nexport let last: Date | undefined\nvar old\n'
    assert.deepEqual(moduleState(source), [
      { name: 'counter', line: 3 },
      { name: 'last', line: 4 },
      { name: 'old', line: 5 },
    ])
  })

  for (const declaration of [
    'const seen = new Set<string>()',
    'const handlers: Map<string, () => void> = new Map()',
    'export const cache = new Map<string, Promise<Record<string, number>>>(); // by id',
    'const list: string[] = []',
    'const totals = {} as Record<string, number>',
  ])
    it(`finds the initially empty collection in: ${declaration}`, () => {
      assert.equal(namesIn(declaration).length, 1)
    })

  for (const declaration of [
    "const names = new Map([['a', 'A']])",
    'const limits = { max: 3 }',
    'const empty = list.map(() => [])',
    'const make = () => {}',
    '  let inner = 0',
    'letter()',
    '// let commented = 1',
    'let cached = null // per thread',
  ])
    it(`finds nothing in: ${declaration}`, () => {
      assert.deepEqual(namesIn(declaration), [])
    })
})
