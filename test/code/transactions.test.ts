import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { hooks, Line, plinth, Ref, refuse, service as serviceOf, Type } from '../../src/plinth.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const names = ['parents', 'children', 'notes']
const scopes = names.flatMap((name) => [`${name}:read`, `${name}:write`]).join(' ')
const mergePatch = { 'content-type': 'application/merge-patch+json' }

/** The hook calls of a service on one engine, and a clock that hooks can advance. */
interface Seen {
  moments: string[]
  clock: { now: number }
}

function definitionOf(seen: Seen) {
  const { collection, service } = plinth()
  const parents = collection({
    path: '/parents',
    noun: 'parent',
    body: Type.Object({ name: Line(1, 40) }),
    computed: { size: { count: 'children' } },
  })
  const children = collection({
    path: '/children',
    noun: 'child',
    body: Type.Object({ parentId: Ref(parents, { onDelete: 'cascade' }), name: Line(1, 40) }),
  })
  const notes = collection({
    path: '/notes',
    noun: 'note',
    body: Type.Object({ text: Line(1, 40), parentId: Type.Optional(Ref(parents, { onDelete: 'setNull' })) }),
  })
  const note = (moment: string) => void seen.moments.push(moment)
  const ofParents = hooks(parents, {
    changed: (before, after) => note(`parent ${before.size}→${after.size}`),
    removing: (row) => note(`removing ${row.name}`),
    removed: (row) => note(`removed ${row.name}`),
  })
  const ofChildren = hooks(children, {
    creating: ({ name }) => note(`creating ${name}`),
    created: ({ name }) => note(`created ${name}`),
    changing: (before, values) => {
      note(`changing ${before.name}→${values.name}`)
      if (values.name === 'refused') throw refuse.conflict('This name is taken back')
      return { name: `${values.name}!` }
    },
    changed: (before, after) => note(`changed ${before.name}→${after.name}`),
    removing: ({ name }) => {
      note(`removing ${name}`)
      if (name === 'kept') throw refuse('name', 'must stay')
    },
    removed: ({ name }) => note(`removed ${name}`),
  })
  const ofNotes = hooks(notes, {
    changing: (before, values) => note(`note ${before.parentId === undefined}→${values.parentId === undefined}`),
    created: async ({ id, text }, { insert, update, fetch, db }) => {
      if (text === 'deep') await insert(notes, { text })
      if (text === 'sleeps') await new Promise((resolve) => setTimeout(resolve, 1_000))
      if (text === 'slow') seen.clock.now += 251
      if (text === 'forgets') void update(notes, id, { text: 'never' })
      if (text === 'fetches') await fetch('https://example.com/')
      if (text === 'catches') await insert(notes, { text: '' }).catch(() => {})
      if (text === 'counts') {
        const found = await db.selectFrom('resource_notes').select('text').where('id', '=', id).execute()
        note(`sql ${found[0]?.text}`)
      }
    },
  })
  return service({ resources: [parents, children, notes], code: { ofParents, ofChildren, ofNotes } })
}

/** A tail refers to a root directly, and indirectly through a leaf and its branch. */
function diamond(moments: string[]) {
  const { collection, service } = plinth()
  const roots = collection({ path: '/roots', noun: 'root', body: Type.Object({ name: Line(1, 40) }) })
  const branches = collection({
    path: '/branches',
    noun: 'branch',
    body: Type.Object({ rootId: Ref(roots, { onDelete: 'cascade' }) }),
  })
  const leaves = collection({
    path: '/leaves',
    noun: 'leaf',
    body: Type.Object({ branchId: Ref(branches, { onDelete: 'cascade' }) }),
  })
  const tails = collection({
    path: '/tails',
    noun: 'tail',
    body: Type.Object({ rootId: Ref(roots, { onDelete: 'cascade' }), leafId: Ref(leaves, { onDelete: 'cascade' }) }),
  })
  const note = (moment: string) => () => void moments.push(moment)
  const code = {
    ofRoots: hooks(roots, { removing: note('root') }),
    ofBranches: hooks(branches, { removing: note('branch') }),
    ofLeaves: hooks(leaves, { removing: note('leaf') }),
    ofTails: hooks(tails, { removing: note('tail') }),
  }
  return service({ resources: [roots, branches, leaves, tails], code })
}

forEachEngine((engine) => {
  describe('hooks that run in the transaction of a write', () => {
    const seen: Seen = { moments: [], clock: { now: 0 } }
    const monotonic = () => seen.clock.now
    const log = { info: () => {}, warn: () => {}, error: () => {} }
    const noJobs = { check: () => {}, enqueue: async () => {} }
    const codeServices = { monotonic, log, fetch, jobs: noJobs }
    const app = appOn(engine, { prefixes: [''], definition: definitionOf(seen), codeServices })
    const send = async (method: 'POST' | 'GET' | 'PUT' | 'PATCH' | 'DELETE', url: string, payload?: object) => {
      const headers = method === 'PATCH' ? { headers: mergePatch } : {}
      const response = await app.send({ method, url, scopes, ...(payload && { payload }), ...headers })
      return { status: response.statusCode, body: response.body === '' ? {} : response.json() }
    }
    const taken = () => seen.moments.splice(0)
    const faults = () => app.faults.splice(0).map((fault) => (fault as Error).message)

    it('of all six kinds are called, even for rows that change or are deleted along with another row', async () => {
      const { id: parentId } = (await send('POST', '/parents', { name: 'P' })).body
      const { id } = (await send('POST', '/children', { parentId, name: 'a' })).body
      assert.deepEqual(taken(), ['creating a', 'parent 0→1', 'created a'])
      assert.equal((await send('PUT', `/children/${id}`, { parentId, name: 'b' })).body.name, 'b!')
      assert.equal((await send('PATCH', `/children/${id}`, { name: 'c' })).body.name, 'c!')
      const changes = taken().filter((moment) => !moment.startsWith('parent'))
      assert.deepEqual(changes, ['changing a→b', 'changed a→b!', 'changing b!→c', 'changed b!→c!'])
      const { id: noteId } = (await send('POST', '/notes', { text: 'n', parentId })).body
      assert.equal((await send('DELETE', `/parents/${parentId}`)).status, 204)
      assert.deepEqual(taken(), ['removing c!', 'removing P', 'note false→true', 'removed c!', 'removed P'])
      assert.equal((await send('GET', `/notes/${noteId}`)).body.parentId, undefined)
    })

    it('409 for a change refused with refuse.conflict(), 422 for a deletion, even by a cascade, refused with refuse()', async () => {
      const { id: parentId } = (await send('POST', '/parents', { name: 'P' })).body
      const { id } = (await send('POST', '/children', { parentId, name: 'kept' })).body
      const refused = await send('PATCH', `/children/${id}`, { name: 'refused' })
      assert.deepEqual([refused.status, refused.body.errorCode], [409, 'STATE_CONFLICT'])
      assert.equal((await send('DELETE', `/children/${id}`)).status, 422)
      assert.equal((await send('DELETE', `/parents/${parentId}`)).status, 422)
      assert.equal((await send('GET', `/parents/${parentId}`)).body.size, 1)
    })

    it('500 when writes in hooks are nested more than eight deep; the reported error names the hooks', async () => {
      assert.equal((await send('POST', '/notes', { text: 'deep' })).status, 500)
      assert.match(String(faults()), /nested more than 8 deep: created of \/notes → created of \/notes/)
    })

    for (const [text, message] of [
      ['sleeps', /created of \/notes awaits something other than its calls/],
      ['slow', /created of \/notes took 251 ms/],
      ['forgets', /created of \/notes (ended before its calls|called update)/],
      ['fetches', /created of \/notes threw an error/],
      ['catches', /created of \/notes threw an error/],
    ] as const) {
      it(`500 if a hook breaks a rule for hooks (case '${text}'); nothing is stored`, async () => {
        assert.equal((await send('POST', '/notes', { text })).status, 500)
        assert.match(String(faults()), message)
        const stored = await app.db.read
          .withoutPlugins()
          .selectFrom('resource_notes' as never)
          .selectAll()
          .execute()
        assert.ok(!stored.some((row) => (row as { text: string }).text === text))
      })
    }

    it('201 if a hook reads the new row with its own SQL', async () => {
      taken()
      assert.equal((await send('POST', '/notes', { text: 'counts' })).status, 201)
      assert.deepEqual(taken(), ['sql counts'])
    })
  })
})

describe('the hooks of a service', () => {
  it('are rejected if one is declared twice, or if they are not passed to the service', () => {
    const { collection } = plinth()
    const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40) }) })
    const one = hooks(notes, { created: () => {} })
    assert.throws(() => serviceOf({ resources: [notes] }), /hooks of \/notes was made, but code does not include it/)
    const other = hooks(notes, { created: () => {} })
    const twice = { resources: [notes], code: { one, other } }
    assert.throws(() => serviceOf(twice), /the hook created of \/notes is declared twice/)
  })

  it('have the collection’s types for rows and values', () => {
    const { collection } = plinth()
    const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40) }) })
    const typed = hooks(notes, {
      created: async (row, { insert, update, find }) => {
        const text: string = row.text
        await insert(notes, { text })
        // @ts-expect-error -- `title` is not a field of notes
        await insert(notes, { title: text })
        // @ts-expect-error -- the text is a string
        await update(notes, row.id, { text: 7 })
        // @ts-expect-error -- the row may not exist
        return void (await find(notes, row.id)).text
      },
    })
    assert.equal(typed.kind, 'hooks')
    assert.equal(serviceOf({ resources: [notes], code: { typed } }).code.hooks.length, 1)
  })
})

forEachEngine((engine) => {
  describe('the hooks of rows deleted by a cascade along two paths', () => {
    const moments: string[] = []
    const app = appOn(engine, { prefixes: [''], definition: diamond(moments) })

    it('run for referring rows before the rows that they refer to', async () => {
      const allScopes = ['roots', 'branches', 'leaves', 'tails'].flatMap((name) => [`${name}:read`, `${name}:write`])
      const send = (method: 'POST' | 'DELETE', url: string, payload?: object) =>
        app.send({ method, url, scopes: allScopes.join(' '), ...(payload && { payload }) })
      const create = async (path: string, body: object) => (await send('POST', path, body)).json().id as number
      const rootId = await create('/roots', { name: 'R' })
      const leafId = await create('/leaves', { branchId: await create('/branches', { rootId }) })
      await create('/tails', { rootId, leafId })
      assert.equal((await send('DELETE', `/roots/${rootId}`)).statusCode, 204)
      assert.deepEqual(moments, ['tail', 'leaf', 'branch', 'root'])
    })
  })
})
