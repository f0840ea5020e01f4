import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { action, File, hooks, Line, plinth, Ref, Type } from '../../src/plinth.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const names = ['authors', 'poems', 'probes']
const scopes = names.flatMap((name) => [`${name}:read`, `${name}:write`]).join(' ')
const output = Type.Object({ found: Type.Unknown() })

function definitionOf(moments: string[]) {
  const { collection, service } = plinth()
  const authors = collection({ path: '/authors', noun: 'author', body: Type.Object({ name: Line(1, 40) }) })
  const poems = collection({
    path: '/poems',
    noun: 'poem',
    body: Type.Object({
      authorId: Ref(authors, { onDelete: 'restrict' }),
      editorId: Type.Optional(Ref(authors, { onDelete: 'setNull' })),
      title: Line(1, 40),
      scan: Type.Optional(File({ maxBytes: 1_000, types: ['application/pdf'] })),
    }),
    keepDeleted: '1 day',
    computed: { isEdited: { when: { editorId: { null: false } } } },
  })
  const probes = collection({ path: '/probes', noun: 'probe', body: Type.Object({ name: Line(1, 40) }) })
  const options = { on: 'collection', input: Type.Object({ id: Type.Optional(Type.Integer()) }), output } as const
  const code = {
    lifecycle: hooks(poems, {
      creating: ({ title }) => {
        moments.push(`creating ${title}`)
      },
      created: ({ title }) => void moments.push(`created ${title}`),
      changed: (_before, { title }) => void moments.push(`changed ${title}`),
      removed: ({ title }) => void moments.push(`removed ${title}`),
    }),
    rest: action(probes, 'rest', {
      ...options,
      run: async ({ id = 0 }, { find, ...others }) => {
        const names = Object.keys(others).filter((name) => name === 'count' || name === 'find')
        return { found: [names, 'emit' in others, (await find(probes, id)) ?? null, await others.count(probes)] }
      },
    }),
    expand: action(probes, 'expand', {
      ...options,
      run: async ({ id = 0 }, { find }) => {
        const poem = await find(poems, id, { expand: ['author', 'editor'] })
        return { found: [poem?.author.name, poem?.editor?.name ?? null, poem?.isEdited] }
      },
    }),
    list: action(probes, 'list', {
      ...options,
      run: async ({ id: authorId = 0 }, { list, count }) => {
        const ids: number[] = []
        for await (const { id } of list(poems, { where: { authorId } })) ids.push(id)
        const limited = await Array.fromAsync(list(poems, { where: { authorId }, limit: 101 }))
        const along = await count(poems, { author: { name: 'Sappho' }, isEdited: false })
        return { found: { ids, limited: limited.map(({ id }) => id), along } }
      },
    }),
    next: action(probes, 'next', {
      ...options,
      run: async ({ id = 0 }, { next, insert }) => {
        const number = await next('poems')
        if (id === -1) throw new Error('after next')
        await insert(probes, { name: `probe ${number}` })
        return { found: number }
      },
    }),
    upload: action(probes, 'upload', {
      ...options,
      run: async ({ id = 0 }, { update }) => {
        const renamed = await update(poems, id, { title: 'renamed' })
        const scan = { type: 'application/pdf' } as never
        const refused = await update(poems, id, { scan }).catch((error: Error) => error.message)
        return { found: [renamed.title, refused] }
      },
    }),
  }
  return service({ resources: [authors, poems, probes], code })
}

forEachEngine((engine) => {
  describe('the context that actions and hooks receive', () => {
    const moments: string[] = []
    const app = appOn(engine, { prefixes: [''], definition: definitionOf(moments) })
    const send = async (
      method: 'POST' | 'GET' | 'DELETE' | 'PUT',
      url: string,
      payload?: object | Buffer,
      more = {},
    ) => {
      const response = await app.send({ method, url, scopes, ...(payload && { payload }), headers: more })
      return { status: response.statusCode, body: response.body === '' ? {} : response.json() }
    }
    const run = async (name: string, id?: number) =>
      (await send('POST', `/probes/${name}`, id === undefined ? {} : { id })).body.found
    const author = async (name: string) => (await send('POST', '/authors', { name })).body.id as number
    const poem = async (values: object) =>
      (await send('POST', '/poems', { title: 'a poem', ...values })).body.id as number

    it('has all other members in the rest element of a destructured parameter', async () => {
      assert.deepEqual(await run('rest', 999_999), [['count'], true, null, 0])
    })

    it('`expand` adds related rows to a row, and leaves a member undefined if its reference is absent', async () => {
      const [authorId, editorId] = [await author('Sappho'), await author('Ada')]
      assert.deepEqual(await run('expand', await poem({ authorId, editorId })), ['Sappho', 'Ada', true])
      assert.deepEqual(await run('expand', await poem({ authorId })), ['Sappho', null, false])
    })

    it('`list` reads all rows that meet a condition, across pages, in the order of their ids', async () => {
      const authorId = await author('Basho')
      const ids: number[] = []
      for (let n = 0; n < 120; n++) ids.push(await poem({ authorId }))
      const { ids: listed, limited, along } = await run('list', authorId)
      assert.deepEqual([listed, limited], [ids, ids.slice(0, 101)])
      assert.ok(along >= 1)
    })

    it('`next` returns numbers without gaps in 110 concurrent requests, ten of which fail', async () => {
      // On a busy machine, PostgreSQL may stop waiting for the counter's lock; then the request is sent again.
      const post = async (payload: object): ReturnType<typeof send> => {
        const response = await send('POST', '/probes/next', payload)
        return response.status === 503 ? post(payload) : response
      }
      const all = await Promise.all(Array.from({ length: 110 }, (_, n) => post(n % 11 === 0 ? { id: -1 } : {})))
      const ofAuthor = app.faults.splice(0).filter((fault) => /action next/.test(String(fault)))
      assert.equal(ofAuthor.length, 10)
      const numbers = all.filter(({ status }) => status === 200).map(({ body }) => body.found as number)
      assert.deepEqual(
        numbers.toSorted((a, b) => a - b),
        Array.from({ length: 100 }, (_, n) => n + 1),
      )
    })

    it('hooks run when a row is deleted and when it is restored', async () => {
      const id = await poem({ authorId: await author('Li Bai'), title: 'kept' })
      moments.length = 0
      assert.equal((await send('DELETE', `/poems/${id}`)).status, 204)
      assert.deepEqual(moments.splice(0), ['removed kept'])
      const restored = await send('POST', `/api/deleted/poems/${id}/restore`)
      assert.equal(restored.status, 201, JSON.stringify(restored.body))
      assert.deepEqual(moments, ['creating kept', 'created kept'])
    })

    it('500 if an action changes a file, even if it catches the error; the row and its file are unchanged', async () => {
      const id = await poem({ authorId: await author('Ovid') })
      const type = { 'content-type': 'application/pdf' }
      const uploaded = await app.send({
        method: 'PUT',
        url: `/poems/${id}/scan`,
        scopes,
        payload: '%PDF-1.7 text',
        headers: type,
      })
      assert.ok(uploaded.statusCode < 300, uploaded.body)
      assert.equal((await send('POST', '/probes/upload', { id })).status, 500)
      assert.match(String((app.faults.splice(0)[0] as Error).cause), /scan is a file, which only a request can store/)
      const { body } = await send('GET', `/poems/${id}`)
      assert.deepEqual([body.title, body.scan?.type], ['a poem', 'application/pdf'])
    })
  })
})
