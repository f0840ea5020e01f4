import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, beforeEach, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { answering, commandRunner, ended, killAll, newPlace, plinth, project, requestToken, visit } from './support.ts'

const example = join(project, 'examples', 'notes', 'service.ts')
const folder = mkdtempSync(join(tmpdir(), 'plinth-own-'))
const { dataDir, port, env, remove } = await newPlace()
const commands = commandRunner(env)
after(() => {
  commands.close()
  killAll()
  remove()
  rmSync(folder, { recursive: true, force: true })
})

const base = `https://localhost:${port}`
const plinthFile = pathToFileURL(join(project, 'bin', 'import.js')).href

/** Writes a definition file that imports the package from this checkout. */
function written(name: string, text: string): string {
  const file = join(folder, name)
  writeFileSync(file, text.replace("'plinth'", `'${plinthFile}'`))
  return file
}

const notes = (body: string, more = '') =>
  `import { collection, Line, service, Title, Type } from 'plinth'
   const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ ${body} }), ${more} })
   export default service({ resources: [notes] })`

describe('plinth serve <definition>', () => {
  it('serves the definition; a client created on the command line gets its scopes', async () => {
    const service = plinth(['serve', example], env)
    await answering(service, dataDir, port)
    const registered = await ended(
      plinth(['clients', 'create', '--name', 'N', '--scope', 'notes:read notes:write'], {
        ...env,
        PLINTH_DEFINITION: example,
      }),
    )
    assert.equal(registered.code, 0, registered.stderr)
    const [, id = '', secret = ''] = /^client_id {6}(\S+)\nclient_secret {2}(\S+)\n$/.exec(registered.stdout) ?? []
    const token = (await requestToken(dataDir, port, id, secret)).json().access_token
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ title: 'First', pinned: true })
    const created = await visit(dataDir, `${base}/notes`, { method: 'POST', headers, body })
    assert.deepEqual([created.status, created.json().pinned], [201, true])
    assert.equal((await visit(dataDir, `${base}/notes?pinned=true`, { headers })).json().length, 1)
    assert.equal((await visit(dataDir, `${base}/products`, { headers })).status, 404)
    const discovery = (await visit(dataDir, `${base}/.well-known/openid-configuration`)).json()
    const resource = (await visit(dataDir, `${base}/.well-known/oauth-protected-resource`)).json()
    for (const scopes of [discovery.scopes_supported, resource.scopes_supported]) {
      assert.ok(scopes.includes('notes:write') && !scopes.includes('products:write'), String(scopes))
    }
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 0)
  })

  describe('the definition used by default', () => {
    const here = join(folder, 'here')
    const reports = (name: string) => `plinth: using the definition ${join(here, name)}\n`
    /** Returns the result of `migrate --plan` in this folder on an empty database. */
    const plan = async (more: Record<string, string> = {}, ...args: string[]) => {
      const { code, stdout, stderr } = await ended(plinth(['migrate', '--plan', ...args], { ...env, ...more }, here))
      return { code, stderr, isOfNotes: stdout.includes('create table "resource_notes"') }
    }
    before(() => {
      mkdirSync(here)
      env.PLINTH_DATA_DIR = join(dataDir, 'planned')
    })
    after(() => {
      env.PLINTH_DATA_DIR = dataDir
    })
    beforeEach(() => {
      for (const name of readdirSync(here)) rmSync(join(here, name))
      rmSync(env.PLINTH_DATA_DIR as string, { recursive: true, force: true })
      mkdirSync(env.PLINTH_DATA_DIR as string)
    })

    it('is service.ts in the current folder; its path is printed', async () => {
      writeFileSync(join(here, 'package.json'), '{"type":"module"}')
      written('here/service.ts', notes('title: Title'))
      assert.deepEqual(await plan(), { code: 3, stderr: reports('service.ts'), isOfNotes: true })
    })

    it('is the file specified in package.json rather than service.ts', async () => {
      writeFileSync(join(here, 'service.ts'), 'throw new Error("not this one")')
      writeFileSync(join(here, 'package.json'), '{"type":"module","plinth":"./other.ts"}')
      written('here/other.ts', notes('title: Title'))
      assert.deepEqual(await plan(), { code: 3, stderr: reports('other.ts'), isOfNotes: true })
    })

    it('is not used if PLINTH_DEFINITION or an argument specifies another definition', async () => {
      writeFileSync(join(here, 'service.ts'), 'throw new Error("not this one")')
      const named = written('named.ts', notes('title: Title'))
      const expected = { code: 3, stderr: '', isOfNotes: true }
      assert.deepEqual(await plan({ PLINTH_DEFINITION: named }), expected)
      assert.deepEqual(await plan({ PLINTH_DEFINITION: join(folder, 'none.ts') }, named), expected)
    })

    it('exit code 2 for a package.json whose `plinth` field is not a path', async () => {
      writeFileSync(join(here, 'package.json'), '{"plinth":{"main":"service.ts"}}')
      const { code, stderr } = await plan()
      assert.deepEqual([code, stderr.split(': ')[1]], [2, join(here, 'package.json')])
      assert.match(stderr, /"plinth" must be the path of the definition, such as "\.\/service\.ts"/)
    })

    it('is the built-in definition if the current folder has none', async () => {
      assert.deepEqual(await plan(), { code: 3, stderr: '', isOfNotes: false })
    })
  })

  it('docs/resources.md and README.md show the tested example', () => {
    const [doc = '', readme = ''] = ['docs/resources.md', 'README.md'].map((name) =>
      readFileSync(join(project, name), 'utf8'),
    )
    const snippet = readFileSync(example, 'utf8')
    assert.ok(doc.includes(`\`\`\`ts\n${snippet}\`\`\``), 'docs/resources.md')
    assert.ok(readme.includes(`\`\`\`ts\n${snippet}\`\`\``), 'README.md')
  })

  const refusals: [what: string, file: () => string, message: RegExp][] = [
    [
      'a file that does not exist',
      () => join(folder, 'none.ts'),
      /^plinth: \S+none\.ts does not exist or is not a file;/,
    ],
    ['a folder', () => folder, /^plinth: \S+ does not exist or is not a file;/],
    [
      'a default export that is not a service',
      () => written('a.mjs', 'export default {}'),
      /a\.mjs has no definition: .* service\(\)/,
    ],
    ['a file without a default export', () => written('b.mjs', 'export const x = 1'), /b\.mjs has no definition/],
    [
      'a file that throws',
      () => written('c.mjs', 'throw new Error("ouch")'),
      /c\.mjs cannot be loaded: Error: ouch\n {4}at .*c\.mjs:1:\d+\n$/,
    ],
    [
      'a file that throws after a top-level await',
      () => written('g.mjs', 'await null\nthrow new Error("late")'),
      /g\.mjs cannot be loaded: Error: late\n {4}at .*g\.mjs:2:\d+\n$/,
    ],
    [
      'a file with a missing import',
      () => written('d.mjs', "import './nowhere.js'"),
      /d\.mjs cannot be loaded: .*nowhere\.js/,
    ],
    [
      'a syntax error, with its line',
      () => written('e.mjs', '\na b c'),
      /e\.mjs cannot be loaded: file:\/\/\S+e\.mjs:2\na b c\n {2}\^\n+SyntaxError: Unexpected identifier 'b'\n$/,
    ],
    [
      'a syntax error in an imported file, with its line',
      () => {
        written('broken.mjs', 'const a = { b = 1 }')
        return written('h.mjs', "\nimport './broken.mjs'")
      },
      /h\.mjs cannot be loaded: file:\/\/\S+broken\.mjs:1\n.*\n +\^+\n+SyntaxError: Invalid shorthand/,
    ],
    [
      'an option of the wrong type',
      () => written('i.ts', notes('title: Title', "filters: 'title' as never")),
      /i\.ts cannot be served:\n\/notes: filters must be an array, not 'title'\n {4}at file:\/\/\S+i\.ts:2:\d+\n$/,
    ],
    [
      'an invalid declaration',
      () => written('f.ts', notes('title: Title', "sorts: ['titel'], filters: ['id']")),
      /f\.ts cannot be served:\n\/notes: filters names 'id', .*\n\/notes: sorts names 'titel'.*\n {4}at file:\/\/\S+f\.ts:\d+:\d+\n$/,
    ],
  ]
  for (const [what, file, message] of refusals) {
    it(`exit code 2 and the reason for ${what}`, async () => {
      const { code, stdout, stderr } = await commands.run(['serve', file()])
      assert.deepEqual([code, stdout], [2, ''], stderr)
      assert.match(stderr, message)
    })
  }
})

describe('a collection whose path is reserved, or whose fields do not fit the built-in table at its path', () => {
  const at = (path: string) => notes('title: Title', "sorts: ['title']").replace("'/notes'", `'${path}'`)
  const refused: [path: string, message: RegExp][] = [
    [
      '/users',
      /users\.ts cannot be served:\n\/users: this path is reserved for the users who log in: import \{ users \}/,
    ],
    ['/products', /products\.ts cannot be served:\n\/products: every row of its table has name and price: declare/],
    ['/books', /books\.ts cannot be served:\n\/books: every row of its table has author: declare/],
    ['/tables', /tables\.ts cannot be served:\n\/tables: this path is reserved for the service itself/],
  ]
  for (const [path, message] of refused) {
    it(`exit code 2 for ${path} from serve and migrate, before a database is created`, async () => {
      const place = await newPlace()
      const file = written(`${path.slice(1)}.ts`, at(path))
      for (const command of ['serve', 'migrate']) {
        const { code, stdout, stderr } = await commands.run([command, file], '', place.env)
        assert.deepEqual([code, stdout], [2, ''])
        assert.match(stderr, message)
        assert.ok(!existsSync(join(place.dataDir, 'plinth.db')))
      }
      place.remove()
    })
  }
})

/** Returns the distinct messages that `plinth serve` logged, in order. Throws for a line that is not JSON. */
const messages = (stdout: string): string[] => [
  ...new Set(
    stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { msg: string }).msg),
  ),
]

describe('plinth serve <definition> with a custom report', () => {
  const withReport = (sql: string) =>
    notes('title: Title').replace(
      'service({ resources: [notes] })',
      `service({ resources: [notes], reports: [{ name: 'titles', scope: 'notes:read', from: 'resource_notes', key: ['id'],
         columns: [{ name: 'title', type: 'string', sql: '${sql}' }] }] })`,
    )

  it('exit code 2 for invalid SQL, with the report, the column and the database error', async () => {
    const place = await newPlace()
    const { code, stdout, stderr } = await ended(plinth(['serve', written('g.ts', withReport('titel'))], place.env))
    place.remove()
    assert.equal(code, 2, stderr)
    assert.deepEqual(messages(stdout), ['master key created', 'migration applied', 'resource table changed'])
    assert.equal(
      stderr,
      "plinth: service: the report 'titles' has wrong SQL in the column 'title' (titel): no such column: titel\n",
    )
  })

  it('starts if the SQL is valid, even if its table is only created during startup', async () => {
    const place = await newPlace()
    const service = plinth(['serve', written('h.ts', withReport('title'))], place.env)
    await answering(service, place.dataDir, place.port)
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 0)
    place.remove()
  })
})

describe('plinth migrate <definition>', () => {
  it('plans and migrates; exit code 2 for a change that requires a decision by the operator', async () => {
    const place = await newPlace()
    const migrate = async (...args: string[]) => ended(plinth(['migrate', ...args], place.env))
    const first = written('first.ts', notes('title: Title, count: Type.Optional(Type.Integer())', "sorts: ['title']"))
    const plan = await migrate('--plan', first)
    assert.match(
      plan.stdout,
      /^Would run 0001\S*(, \d{4}\S*)+\ncreate table "resource_notes" .*;\n(create index .*;\n)+$/,
    )
    const done = await migrate(first)
    assert.equal(done.stdout, plan.stdout.replace('Would run', 'Ran'))
    assert.equal((await migrate(first)).stdout, 'The schema is up to date\n')

    const changed = written('changed.ts', notes('title: Title, count: Type.Optional(Line(1, 9))', "sorts: ['title']"))
    for (const [args, logged] of [
      [['serve', changed], ['master key created']],
      [['migrate', changed], []],
      [['migrate', '--plan', changed], []],
    ] as const) {
      const { code, stdout, stderr } = await ended(plinth([...args], place.env))
      assert.equal(code, 2)
      assert.deepEqual(messages(stdout), logged)
      assert.match(
        stderr,
        /^plinth: \/notes: the field count is declared as text, but stored as integer in resource_notes\./,
      )
      assert.match(stderr, /^ {4}alter table "resource_notes" rename column "count" to "count_old";$/m)
    }
    const db = new DatabaseSync(join(place.dataDir, 'plinth.db'))
    db.exec('alter table "resource_notes" rename column "count" to "count_old"')
    db.close()
    assert.equal((await migrate(changed)).stdout, 'alter table "resource_notes" add column "count" text;\n')
    place.remove()
  })
})
