import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A fenced code block on a page in docs/. */
export interface Block {
  /** The heading of the section that contains the block. */
  heading: string
  /** The info string of the block: the language, and any words after it. */
  info: string
  text: string
}

const pathOf = (name: string) => fileURLToPath(new URL(`../../docs/${name}`, import.meta.url))

export const pageOf = (name: string): string => readFileSync(pathOf(name), 'utf8')

/**
 * Asserts that a page in docs/ contains this table head (two lines) exactly once, followed by these rows. With
 * `UPDATE=1`, writes the rows instead.
 */
export function expectTable(name: string, head: string, rows: readonly string[]): void {
  const parts = pageOf(name).split(head)
  assert.equal(parts.length, 2, `docs/${name} must have this table once:\n${head}`)
  const [before = '', after = ''] = parts
  const written = before + head + rows.join('') + after.replace(/^(\|.*\n)*/, '')
  if (process.env.UPDATE === '1') writeFileSync(pathOf(name), written)
  assert.ok(pageOf(name) === written, 'The table is out of date: run this test with UPDATE=1, and look at the diff')
}

/** Returns the page's fenced code blocks in order. */
export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = []
  let heading = ''
  for (const [, title, info, text] of markdown.matchAll(/^##+ ([^\n]+)$|^```([^\n]*)\n(.*?)^```$/gms)) {
    if (title !== undefined) heading = title
    else blocks.push({ heading, info: info as string, text: text as string })
  }
  return blocks
}

/** Converts sample output on a page to a pattern: `…` matches any text or, alone on a line, any number of lines. */
export function patternOf(shown: string): RegExp {
  const lines = shown.trimEnd().split('\n')
  const written = lines.map((line) => (line === '…' ? '(.*\n)*?' : `${line.split('…').map(escaped).join('.*')}\n`))
  return new RegExp(`^${written.join('')}$`)
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
