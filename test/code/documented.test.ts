import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'

const textOf = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

it('docs/code.md shows only code from the invoicing example', () => {
  const [page, example] = [textOf('docs/code.md'), textOf('examples/invoicing/code.ts')]
  const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, block]) => block as string)
  assert.equal(blocks.length, 3)
  for (const block of blocks) assert.ok(example.includes(block), block)
})
