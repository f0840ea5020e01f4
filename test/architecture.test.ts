import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { basename, posix } from 'node:path'
import { describe, it } from 'node:test'

const cwd = new URL('../src', import.meta.url).pathname
const texts = new Map(globSync('**/*.ts', { cwd }).map((path) => [path, readFileSync(`${cwd}/${path}`, 'utf8')]))

const shared =
  'resources/(amended|announce|collection|declar(ation|e)(-rules)?|defaults|event-kinds|fields|list(-query)?|merge-patch|pages|representations|show|stored|text|writes)\\.ts$'

/** Who may import whom (docs/architecture.md): files on the left know those on the right; others know everything. */
const rules: [of: RegExp, may: RegExp][] = [
  [/^http\//, /^http\//],
  [/^db\//, /^db\//],
  [/^results\//, /^results\//],
  [/^queue\//, /^(queue|db)\//],
  [/^resources\/[^/]+$/, new RegExp(`^(http|queue|db|results)/|^${shared}`)],
  [/^resources\/reports\//, new RegExp(`^(http|queue|db|results|resources/reports)/|^${shared}`)],
  [/^resources\/webhooks\//, new RegExp(`^(http|queue|db|results|resources/webhooks)/|^${shared}`)],
  [/^auth\//, /^(auth|http|db)\//],
  [
    /^(app|home|worker|versions|documentation|definition|version-declaration|built-in|plinth)\.ts$/,
    /^((http|db|results|queue|resources|auth)\/|(app|home|worker|versions|documentation|definition|version-declaration|built-in)\.ts$)/,
  ],
]

const importsOf = (path: string, text: string) =>
  [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(([, target]) =>
    posix.join(posix.dirname(path), target as string),
  )
const paths = (broken: (path: string, text: string) => boolean) =>
  [...texts].filter(([path, text]) => broken(path, text)).map(([path]) => path)

describe('the source', () => {
  for (const [of, may] of rules) {
    it(`${of.source} imports only ${may.source}`, () => {
      const files = [...texts].filter(([path]) => of.test(path))
      const wrong = files.flatMap(([path, text]) =>
        importsOf(path, text)
          .filter((target) => !may.test(target))
          .map((target) => `${path} → ${target}`),
      )
      assert.ok(files.length > 0)
      assert.deepEqual(wrong, [])
    })
  }

  it('imports only files that are there, by their full name', () => {
    assert.deepEqual(
      paths((path, text) => importsOf(path, text).some((target) => !texts.has(target))),
      [],
    )
  })

  it('has files of 200 lines at most', () => {
    assert.deepEqual(
      paths((_, text) => text.split('\n').length > 201),
      [],
    )
  })

  it('makes revisions in one place, which knows what else a change sets', () => {
    const made = /\brevision: 1\b|\brevision\b['"`)}]*,? *'?\+/
    assert.deepEqual(
      paths((path, text) => !path.startsWith('db/migrations/') && made.test(text)),
      ['db/revision.ts'],
    )
  })

  it('has kebab-case names, none of them a catch-all, and no barrels', () => {
    const vague = /(^|-)(utils?|helpers?|common|manager|service|controller|base|impl)(-|\.)/
    assert.deepEqual(
      paths((path) => !/^[a-z0-9]+(-[a-z0-9]+)*\.ts$/.test(basename(path))),
      [],
    )
    assert.deepEqual(
      paths((path) => vague.test(basename(path))),
      [],
    )
    assert.deepEqual(
      paths((path, text) => basename(path) === 'index.ts' || /^export \* from/m.test(text)),
      [],
    )
  })
})
