import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { event, hooks, Line, plinth, Ref, refuse, Type } from '../../src/plinth.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const scopes = 'tasks:read tasks:write projects:read projects:write webhooks:read webhooks:write'
const mergePatch = { 'content-type': 'application/merge-patch+json' }

function definitionOf() {
  const { collection, service } = plinth()
  const projects = collection({
    path: '/projects',
    noun: 'project',
    body: Type.Object({ name: Line(1, 40), closed: Type.Optional(Type.Boolean()) }),
    computed: { size: { count: 'tasks' } },
  })
  const tasks = collection({
    path: '/tasks',
    noun: 'task',
    body: Type.Object({
      projectId: Ref(projects, { onDelete: 'cascade' }),
      title: Line(1, 40),
      state: Type.Enum(['open', 'done']),
      note: Type.Optional(Line(0, 200)),
    }),
    defaults: { state: 'open' },
  })
  const done = event(tasks, 'done', Type.Object({ title: Type.String() }))
  const taskHooks = hooks(tasks, {
    creating: async (values, { find }) => {
      const project = await find(projects, values.projectId, { lock: true })
      if (project?.closed) throw refuse('projectId', 'is closed')
      return { title: values.title.toUpperCase() }
    },
    created: async (row, { emit, update }) => {
      if (row.title === 'FAIL') throw new Error('the author failed')
      if (row.title === 'DONE') await update(tasks, row.id, { state: 'done' })
      if (row.title === 'DONE') emit(done, row, { title: row.title })
    },
  })
  return service({ resources: [projects, tasks], code: { done, taskHooks } })
}

forEachEngine((engine) => {
  describe('hooks', () => {
    const app = appOn(engine, { prefixes: [''], definition: definitionOf() })
    const send = (method: 'POST' | 'GET' | 'PATCH' | 'DELETE', url: string, payload?: object) =>
      app.send({ method, url, scopes, ...(payload && { payload }), ...(method === 'PATCH' && { headers: mergePatch }) })
    const project = async (more: object = {}) =>
      (await send('POST', '/projects', { name: 'One', ...more })).json().id as number

    it('201 with the fields that `creating` returns', async () => {
      const response = await send('POST', '/tasks', { projectId: await project(), title: 'first' })
      assert.deepEqual([response.statusCode, response.json().title], [201, 'FIRST'], response.body)
    })

    it('422 with the field that `creating` refuses; nothing is stored', async () => {
      const projectId = await project({ closed: true })
      const response = await send('POST', '/tasks', { projectId, title: 'late' })
      assert.equal(response.statusCode, 422, response.body)
      assert.deepEqual(response.json().errors, [{ field: 'projectId', message: 'is closed' }])
      assert.equal((await send('GET', `/projects/${projectId}`)).json().size, 0)
    })

    it('500 when a hook throws; nothing is stored, and the reported error names the line of the hook', async () => {
      const projectId = await project()
      const response = await send('POST', '/tasks', { projectId, title: 'fail' })
      assert.equal(response.statusCode, 500)
      assert.equal((await send('GET', `/projects/${projectId}`)).json().size, 0)
      const [fault] = app.faults.splice(0) as Error[]
      assert.match(String(fault?.message), /created of \/tasks threw an error/)
      assert.match(String((fault?.cause as Error | undefined)?.stack), /hooks\.test\.ts:\d+/)
    })

    it('publish their own events, and a single created event for a row that they change during its creation', async () => {
      const webhook = { event: 'task.*', callbackUrl: 'http://127.0.0.1:9/' }
      const made = await send('POST', '/api/webhooks', webhook)
      assert.equal(made.statusCode, 201, made.body)
      const created = await send('POST', '/tasks', { projectId: await project(), title: 'done' })
      assert.deepEqual([created.statusCode, created.json().state], [201, 'done'], created.body)
      assert.equal(created.headers.etag, '"2"')
      const events = await app.db.read.selectFrom('events').select(['type', 'body']).orderBy('id').execute()
      const found = events.map(({ type, body }) => [type, JSON.parse(body).state ?? JSON.parse(body).title])
      assert.deepEqual(found.toSorted(), [
        ['task.created', 'done'],
        ['task.done', 'DONE'],
      ])
    })
  })

  describe('a cascading deletion in a service with hooks', () => {
    const { collection, service } = plinth()
    const folders = collection({
      path: '/folders',
      noun: 'folder',
      body: Type.Object({ name: Line(1, 40) }),
      access: (caller) => ({ createdBy: caller.id }),
    })
    const pages = collection({
      path: '/pages',
      noun: 'page',
      body: Type.Object({ folderId: Ref(folders, { onDelete: 'cascade' }), text: Line(1, 40) }),
      access: { of: 'folder' },
    })
    const definition = service({
      resources: [folders, pages],
      code: { pageHooks: hooks(pages, { removed: () => {} }) },
    })
    const app = appOn(engine, { prefixes: [''], definition })
    const all = `${Object.keys(definition.scopes).join(' ')} webhooks:read webhooks:write`

    it('stores the event of each deleted row together with the parent row that the access rule checks', async () => {
      const send = (method: 'POST' | 'DELETE', url: string, payload?: object) =>
        app.send({ method, url, scopes: all, ...(payload && { payload }) })
      await send('POST', '/api/webhooks', { event: 'page.deleted', callbackUrl: 'http://127.0.0.1:9/' })
      const { id } = (await send('POST', '/folders', { name: 'one' })).json()
      assert.equal((await send('POST', '/pages', { folderId: id, text: 'first' })).statusCode, 201)
      assert.equal((await send('DELETE', `/folders/${id}`)).statusCode, 204)
      const [event, ...others] = await app.db.read.selectFrom('events').select('facts').execute()
      assert.deepEqual([JSON.parse(String(event?.facts)).folder.createdBy, others], ['client:cli_test', []])
    })
  })
})
