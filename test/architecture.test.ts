import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, posix } from 'node:path'
import { describe, it } from 'node:test'

const cwd = new URL('../src', import.meta.url).pathname
const texts = new Map(globSync('**/*.ts', { cwd }).map((path) => [path, readFileSync(`${cwd}/${path}`, 'utf8')]))
const page = readFileSync(new URL('../docs/architecture.md', import.meta.url), 'utf8')

/** The tiers, lowest first (docs/architecture.md): a folder may import itself and lower tiers. */
const tiers = [
  ['http', 'storage'],
  ['files', 'queue'],
  ['audit', 'idempotency', 'metrics', 'rate-limits', 'traffic', 'versioning'],
  ['openapi'],
  ['jobs', 'oauth', 'reports', 'resources', 'webhooks'],
]
/** Every tier may import this file, because any code may throw startup errors. */
const knownToAll = 'startup-errors.ts'

const importsOf = (path: string, text: string) =>
  [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(([, target]) =>
    posix.join(posix.dirname(path), target as string),
  )
const paths = (broken: (path: string, text: string) => boolean) =>
  [...texts].filter(([path, text]) => broken(path, text)).map(([path]) => path)

const top = (path: string) => path.split('/')[0] as string
/** Files outside the tiers assemble the service; they count as the highest tier. */
const tierOf = (path: string) => {
  const tier = tiers.findIndex((folders) => folders.includes(top(path)))
  return tier === -1 ? tiers.length : tier
}

function mayImport(path: string, target: string): boolean {
  if (target === knownToAll) return true
  const [own, other] = [tierOf(path), tierOf(target)]
  return other < own || own === tiers.length || top(path) === top(target)
}

/** Finds circular imports, including type imports, with Tarjan's algorithm. */
function circles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = []
  const order = new Map<string, number>()
  const low = new Map<string, number>()
  const stack: string[] = []
  const visit = (file: string): number => {
    const at = order.size
    order.set(file, at)
    low.set(file, at)
    stack.push(file)
    for (const target of graph.get(file) ?? []) {
      if (!order.has(target)) low.set(file, Math.min(low.get(file) as number, visit(target)))
      else if (stack.includes(target)) low.set(file, Math.min(low.get(file) as number, order.get(target) as number))
    }
    if (low.get(file) === at) {
      const circle = stack.splice(stack.indexOf(file))
      if (circle.length > 1) found.push(circle.sort())
    }
    return low.get(file) as number
  }
  for (const file of graph.keys()) if (!order.has(file)) visit(file)
  return found
}

const staticImport = /^(?:import|export) (?!type )(?:\{[^}]*\}|\* as \w+|\w+(?:, \{[^}]*\})?) from '([^']+)'/gm

/** Returns where a module, or a module that it imports statically, imports one of these packages. */
function importersOf(entry: string, packages: readonly string[], seen = new Set<string>()): string[] {
  if (seen.has(entry)) return []
  seen.add(entry)
  return [...(texts.get(entry) ?? '').matchAll(staticImport)].flatMap(([, target = '']) => {
    if (packages.includes(target)) return [`${entry}: ${target}`]
    return target.startsWith('.') ? importersOf(posix.join(posix.dirname(entry), target), packages, seen) : []
  })
}

describe('the source code', () => {
  it('imports only from the same folder and from lower tiers', () => {
    const wrong = [...texts].flatMap(([path, text]) =>
      importsOf(path, text)
        .filter((target) => !mayImport(path, target))
        .map((target) => `${path} → ${target}`),
    )
    assert.deepEqual(wrong, [])
  })

  it('has a folder for each name in the list of tiers', () => {
    const folders = new Set([...texts.keys()].map(top))
    assert.deepEqual(
      tiers.flat().filter((folder) => !folders.has(folder)),
      [],
    )
  })

  it('has no circular imports', () => {
    assert.deepEqual(circles(new Map([...texts].map(([path, text]) => [path, importsOf(path, text)]))), [])
  })

  it('does not import Kysely in report threads, because its 255 modules would delay each report', () => {
    const seen = new Set<string>()
    const visit = (path: string): string[] => {
      if (seen.has(path)) return []
      seen.add(path)
      const text = (texts.get(path) ?? '').replaceAll(/^import type [^']*'[^']*'$/gm, '')
      return [...(text.includes("from 'kysely'") ? [path] : []), ...importsOf(path, text).flatMap(visit)]
    }
    // From storage/open.ts, a report thread uses only `openSnapshot`, which imports these two modules.
    const opened = ['storage/sqlite/snapshot.ts', 'storage/postgres/snapshot.ts']
    seen.add('storage/open.ts')
    assert.deepEqual(['reports/generate/thread-main.ts', ...opened].flatMap(visit), [])
  })

  it('imports Fastify statically only in serving threads; undici, oidc-provider and pg are imported on demand', () => {
    const packages = ['fastify', 'undici', 'oidc-provider', 'pg']
    // The modules that these threads load first: the main thread if there are several threads, a background thread, and
    // a serving thread.
    assert.deepEqual(importersOf('threads/start.ts', packages), [])
    assert.deepEqual(importersOf('start.ts', packages), [])
    assert.deepEqual(importersOf('serving/open.ts', packages), ['app.ts: fastify'])
  })

  it('imports only existing files, with their extensions', () => {
    assert.deepEqual(
      paths((path, text) => importsOf(path, text).some((target) => !texts.has(target))),
      [],
    )
  })

  it('has at most 200 lines per file', () => {
    assert.deepEqual(
      paths((_, text) => text.split('\n').length > 201),
      [],
    )
  })

  it('has at most 20 files per folder, except migrations', () => {
    const folders = Map.groupBy(texts.keys(), dirname)
    const crowded = [...folders].filter(([folder, files]) => files.length > 20 && folder !== 'storage/migrations')
    assert.deepEqual(
      crowded.map(([folder, files]) => `${folder}: ${files.length}`),
      [],
    )
  })

  it('has exactly the folders listed in docs/architecture.md', () => {
    const listed = [...page.matchAll(/^src\/([a-z/-]*) {2,}\S/gm)].map(([, folder]) => folder as string)
    const folders = new Set([...texts.keys()].map(dirname).map((folder) => (folder === '.' ? '' : folder)))
    assert.deepEqual(listed.sort(), [...folders].sort())
  })

  it('sets and increments revisions in only one file, apart from migrations', () => {
    const made = /\brevision: 1\b|\brevision\b['"`)}]*,? *'?\+/
    assert.deepEqual(
      paths((path, text) => !path.startsWith('storage/migrations/') && made.test(text)),
      ['storage/rows/revision.ts'],
    )
  })

  it('names limits max… and min…, rather than most…, least…, longest… or shortest…', () => {
    assert.deepEqual(
      paths((_, text) => /\bconst (most|least|longest|shortest)[A-Z]\w* =/.test(text)),
      [],
    )
  })

  it('exports each name from only one file, apart from migrations', () => {
    const declaration = /^export (?:async )?(?:const|function\*?|class|interface|type) ([\w$]+)/gm
    const files = new Map<string, string[]>()
    for (const [path, text] of texts)
      if (!path.includes('migrations/'))
        for (const [, name = ''] of text.matchAll(declaration)) {
          // Overloads of a function are declared in the same file.
          const known = files.get(name) ?? []
          if (!known.includes(path)) files.set(name, [...known, path])
        }
    assert.ok(files.size > 1_000, `${files.size} names`)
    assert.deepEqual(
      [...files].filter(([, paths]) => paths.length > 1),
      [],
    )
  })

  it('has kebab-case file names, no catch-all file names and no barrel files', () => {
    const vague = /(^|-)(utils?|helpers?|common|manager|controller|base|impl)(-|\.)/
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
