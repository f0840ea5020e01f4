import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { compareIds } from '../../../src/storage/ids.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

const callers = ['crm_north', 'crm_south', 'cli_none'] as const
type Who = (typeof callers)[number]
type Item = { id: number; resource: Record<string, unknown> }

forEachEngine((engine) => {
  describe('deleted rows under access rules', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const as = (who: Who, more = '') => token(`${scopes} ${more}`, who)
    const send = (who: Who, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, payload?: object) =>
      service.send({ token: as(who), method, url, ...(payload && { payload }) })
    const create = async (who: Who, url: string, payload: object): Promise<number> => {
      const answer = await send(who, 'POST', url, payload)
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json().id
    }
    const folder = () => create('cli_none', '/folders', { name: 'Folder' })
    const note = (who: Who, folderId: number, more: object = {}) =>
      create(who, '/notes', { folderId, tenant: who.slice(4), text: 'Note', ...more })
    const removed = async (who: Who, url: string) => assert.equal((await send(who, 'DELETE', url)).statusCode, 204)
    const idsOf = async (who: Who, name = 'notes') =>
      (await send(who, 'GET', `/api/deleted/${name}?limit=200`)).json().map(({ id }: Item) => id)
    const restore = async (who: Who, id: number, name = 'notes') =>
      (await send(who, 'POST', `/api/deleted/${name}/${id}/restore`)).statusCode

    const update = (id: number, change: string) =>
      service.db.write((tx) => sql`update resource_notes set ${sql.raw(change)} where id = ${id}`.execute(tx))

    it('are listed for callers who could write them before the deletion, for rules on any field type', async () => {
      const folderId = await folder()
      const changes = [
        ...['size = 99', 'size = 100', 'size = null', 'amount = 100000', 'amount = 100001', 'rate = 0.5'],
        ...['rate = 0.25', 'is_open = 0', 'is_open = 1', "tenant = 'south', tenant_key = 'south'", "tenant = 'North'"],
        ...[
          "text = 'Shared', text_key = 'shared', tenant = 'south', tenant_key = 'south'",
          "text = 'shared', text_key = 'shared'",
        ],
      ]
      const ids: number[] = []
      for (const change of changes) {
        const id = await note('crm_north', folderId)
        ids.push(id)
        await update(id, change)
      }
      const writable = new Map<Who, number[]>()
      for (const who of callers) {
        const statuses = await Promise.all(
          ids.map(async (id) => (await send(who, 'PATCH', `/notes/${id}`, {})).statusCode),
        )
        writable.set(
          who,
          ids.filter((_, at) => statuses[at] === 200),
        )
      }
      assert.ok((writable.get('crm_north')?.length ?? 0) > 4)
      assert.ok((writable.get('crm_south')?.length ?? 0) > 0)
      await removed('cli_none', `/folders/${folderId}`)
      assert.equal(await restore('cli_none', folderId, 'folders'), 201)
      for (const who of callers) assert.deepEqual((await idsOf(who)).toSorted(compareIds), writable.get(who), who)
      for (const who of callers) {
        for (const id of ids) {
          const isWritable = writable.get(who)?.includes(id)
          const isShown = (await idsOf(who)).includes(id)
          if (!isShown) assert.equal(await restore(who, id), 404)
          else {
            assert.ok(isWritable)
            assert.equal(await restore(who, id), 201)
            assert.equal((await send(who, 'GET', `/notes/${id}`)).statusCode, 200)
          }
        }
      }
    })

    it('404 for a restore or final deletion by a caller who could not read the row, even with the scope admin', async () => {
      const id = await note('crm_north', await folder())
      await removed('crm_north', `/notes/${id}`)
      for (const sender of [as('crm_south'), as('cli_none', 'admin')]) {
        const url = `/api/deleted/notes/${id}`
        const list = await service.send({ token: sender, url: '/api/deleted/notes' })
        assert.ok(!list.json().some((item: Item) => item.id === id))
        const statuses = [
          await service.send({ token: sender, method: 'POST', url: `${url}/restore` }),
          await service.send({ token: sender, method: 'DELETE', url }),
        ].map(({ statusCode }) => statusCode)
        assert.deepEqual(statuses, [404, 404])
      }
      assert.equal(await restore('crm_north', id), 201)
    })

    it('keep their createdBy when another client restores them', async () => {
      const id = await note('crm_north', await folder())
      await update(id, "created_by = 'client:first'")
      await removed('crm_north', `/notes/${id}`)
      const answer = await send('crm_north', 'POST', `/api/deleted/notes/${id}/restore`)
      assert.equal(answer.json().createdBy, 'client:first')
    })

    it('follow the access rules of the row they refer to, and are hidden while that row is deleted too', async () => {
      const noteId = await note('crm_north', await folder())
      const pageId = await create('crm_north', '/pages', { noteId, text: 'Page' })
      await removed('crm_north', `/pages/${pageId}`)
      assert.deepEqual(await idsOf('crm_north', 'pages'), [pageId])
      assert.deepEqual(await idsOf('crm_south', 'pages'), [])
      assert.equal(await restore('crm_south', pageId, 'pages'), 404)
      await removed('crm_north', `/notes/${noteId}`)
      assert.deepEqual(await idsOf('crm_north', 'pages'), [])
      assert.equal(await restore('crm_north', pageId, 'pages'), 404)
      assert.equal(await restore('crm_north', noteId), 201)
      assert.equal(await restore('crm_north', pageId, 'pages'), 201)
    })

    it('409 RESOURCE_LOCKED for restoring a row whose referenced row is now locked', async () => {
      const noteId = await note('crm_north', await folder())
      const pageId = await create('crm_north', '/pages', { noteId, text: 'Page' })
      await removed('crm_north', `/pages/${pageId}`)
      await send('crm_north', 'PATCH', `/notes/${noteId}`, { text: 'Final' })
      assert.equal(await restore('crm_north', pageId, 'pages'), 409)
      assert.deepEqual(await idsOf('crm_north', 'pages'), [pageId])
    })

    it('are listed in full pages, even if half of the rows are hidden from the caller', async () => {
      const folderId = await folder()
      const before = (await idsOf('crm_south')).length
      const own: number[] = []
      for (let turn = 0; turn < 6; turn++) {
        for (const who of ['crm_north', 'crm_south'] as const) {
          const id = await note(who, folderId)
          if (who === 'crm_south') own.unshift(id)
          service.clock.now += 1_000
          await removed(who, `/notes/${id}`)
        }
      }
      const [first, second] = [
        await send('crm_south', 'GET', '/api/deleted/notes?limit=4'),
        await send('crm_south', 'GET', '/api/deleted/notes?limit=200'),
      ]
      assert.deepEqual(
        first.json().map(({ id }: Item) => id),
        own.slice(0, 4),
      )
      assert.equal(second.json().length, before + 6)
    })
  })
})
