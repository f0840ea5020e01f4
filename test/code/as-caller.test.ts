import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { action, Line, plinth, Ref, Type } from '../../src/plinth.ts'
import { appOn, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const scopes = 'shops:read shops:write items:read items:write probes:write'
const output = Type.Object({ found: Type.Unknown() })
const input = Type.Object({ id: Type.Optional(Type.Integer()), values: Type.Optional(Type.Unknown()) })

/** Each client has its own shops; items belong to a shop. The actions of `/probes` access both as the caller. */
function definitionOf() {
  const { collection, service } = plinth()
  const shops = collection({
    path: '/shops',
    noun: 'shop',
    body: Type.Object({ name: Line(1, 40), isOpen: Type.Boolean() }),
    unique: ['name'],
    filters: ['name'],
    access: {
      read: (caller) => ({ any: [{ createdBy: caller.id }, { isOpen: true }] }),
      write: (caller) => ({ createdBy: caller.id }),
    },
  })
  const items = collection({
    path: '/items',
    noun: 'item',
    body: Type.Object({
      shopId: Ref(shops, { onDelete: 'restrict' }),
      code: Line(1, 40),
      owner: Line(1, 80),
      status: Type.Enum(['free', 'sold']),
    }),
    filters: ['code'],
    immutable: ['code'],
    locked: { status: 'sold' },
    set: { owner: ({ caller }) => caller.id },
    defaults: { status: 'free' },
    access: { of: 'shop' },
  })
  const notes = collection({
    path: '/notes',
    noun: 'note',
    body: Type.Object({ shopId: Ref(shops, { onDelete: 'cascade' }), text: Line(1, 40) }),
  })
  const probes = collection({ path: '/probes', noun: 'probe', body: Type.Object({ name: Line(1, 40) }) })
  const options = { on: 'collection', input, output } as const
  const ofAll = async <T>(rows: AsyncIterable<T>) => Array.fromAsync(rows)
  const code = {
    find: action(probes, 'find', {
      ...options,
      run: async ({ id = 0 }, { find, asCaller }) => {
        const [shop, item] = [await asCaller.find(shops, id), await asCaller.find(items, id)]
        return { found: [(await find(shops, id))?.name, shop?.name ?? null, item?.code ?? null] }
      },
    }),
    list: action(probes, 'list', {
      ...options,
      run: async (_input, { count, asCaller }) => {
        const names = (await ofAll(asCaller.list(shops, { where: { isOpen: false } }))).map(({ name }) => name)
        return { found: [await count(shops), await asCaller.count(shops), names] }
      },
    }),
    along: action(probes, 'along', {
      ...options,
      run: async ({ id = 0 }, { count, find, asCaller }) => {
        const where = { shop: { isOpen: false } }
        const one = await asCaller.find(notes, id, { expand: ['shop'] })
        const known = await find(notes, id, { expand: ['shop'] })
        return {
          found: [
            await count(notes, where),
            await asCaller.count(notes, where),
            one?.shop?.name ?? null,
            known?.shop.name,
          ],
        }
      },
    }),
    insert: action(probes, 'insert', {
      ...options,
      run: async ({ values }, { asCaller }) => ({ found: await asCaller.insert(items, values as never) }),
    }),
    open: action(probes, 'open', {
      ...options,
      run: async ({ values }, { asCaller }) => ({ found: await asCaller.insert(shops, values as never) }),
    }),
    update: action(probes, 'update', {
      ...options,
      run: async ({ id = 0, values }, { asCaller }) => ({ found: await asCaller.update(items, id, values as never) }),
    }),
    remove: action(probes, 'remove', {
      ...options,
      run: async ({ id = 0 }, { asCaller }) => ({ found: (await asCaller.remove(shops, id)) ?? null }),
    }),
  }
  return service({ resources: [shops, items, notes, probes], code })
}

forEachEngine((engine) => {
  describe('asCaller', () => {
    const app = appOn(engine, { prefixes: [''], definition: definitionOf() })
    const all = `${scopes} notes:read notes:write`
    const as = (client: string) => async (name: string, payload: object) => {
      const response = await app.send({ method: 'POST', url: `/probes/${name}`, payload, token: token(all, client) })
      const { found, errorCode, errors, details } = response.json()
      return { status: response.statusCode, found, errorCode, errors: errors ?? details }
    }
    const [ada, eve] = [as('cli_ada'), as('cli_eve')]
    const post = async (client: string, url: string, payload: object) => {
      const response = await app.send({ method: 'POST', url, payload, token: token(all, client) })
      assert.equal(response.statusCode, 201, response.body)
      return response.json().id as number
    }
    let shopsMade = 0
    const shopOf = (client: string, isOpen = false) =>
      post(client, '/shops', { name: `${client} ${++shopsMade}`, isOpen })
    const itemOf = async (client: string, isOpen = false) =>
      post(client, '/items', { shopId: await shopOf(client, isOpen), code: 'c' })
    const stored = async (id: number) => (await app.send({ url: `/items/${id}`, token: token(all, 'cli_ada') })).json()

    it('finds, lists and counts only rows that the caller can read', async () => {
      const [id, open] = [await shopOf('cli_ada'), await shopOf('cli_ada', true)]
      const name = `cli_ada ${shopsMade - 1}`
      assert.deepEqual((await ada('find', { id })).found.slice(0, 2), [name, name])
      assert.deepEqual((await eve('find', { id })).found.slice(0, 2), [name, null])
      assert.deepEqual((await eve('find', { id: open })).found[1], `cli_ada ${shopsMade}`)
      const [total, ofAda, closed] = (await ada('list', {})).found
      const [sameTotal, ofEve, ofEveClosed] = (await eve('list', {})).found
      assert.deepEqual([total, ofAda, sameTotal, ofEveClosed], [shopsMade, shopsMade, shopsMade, []])
      assert.ok(closed.includes(name))
      assert.ok(ofEve < total)
    })

    it('treats related rows that the caller cannot read as absent, in conditions and in expand', async () => {
      const shopId = await shopOf('cli_ada')
      const id = await post('cli_ada', '/notes', { shopId, text: 'a note' })
      const name = `cli_ada ${shopsMade}`
      assert.deepEqual((await ada('along', { id })).found, [1, 1, name, name])
      assert.deepEqual((await eve('along', { id })).found, [1, 0, null, name])
    })

    it('200 for an insert; the value that `set` computes replaces the given value', async () => {
      const shopId = await shopOf('cli_ada')
      const { status, found } = await ada('insert', { values: { shopId, code: 'c', owner: 'client:cli_eve' } })
      assert.deepEqual([status, found.owner, found.status], [200, 'client:cli_ada', 'free'])
    })

    it('422 for inserting a reference to an unreadable row, 403 for inserting a row without write access', async () => {
      const [closed, open] = [await shopOf('cli_ada'), await shopOf('cli_ada', true)]
      const unreadable = await eve('insert', { values: { shopId: closed, code: 'c' } })
      assert.deepEqual([unreadable.status, unreadable.errors[0].field], [422, 'shopId'])
      const refused = await eve('insert', { values: { shopId: open, code: 'c' } })
      assert.deepEqual([refused.status, refused.errorCode], [403, 'PERMISSION_DENIED'])
    })

    it('409 for an insert that repeats a unique value', async () => {
      const values = { name: 'the only one', isOpen: false }
      assert.equal((await ada('open', { values })).status, 200)
      const again = await ada('open', { values })
      assert.deepEqual([again.status, again.errorCode], [409, 'DUPLICATE_RESOURCE'])
    })

    it('404 for updating an unreadable row, 403 for a row that is only readable', async () => {
      const [hidden, shown] = [await itemOf('cli_ada'), await itemOf('cli_ada', true)]
      const values = { status: 'sold' }
      for (const [id, status, code] of [
        [hidden, 404, 'RESOURCE_NOT_FOUND'],
        [shown, 403, 'PERMISSION_DENIED'],
        [999_999, 404, 'RESOURCE_NOT_FOUND'],
      ] as const) {
        const refused = await eve('update', { id, values })
        assert.deepEqual([refused.status, refused.errorCode], [status, code])
      }
      assert.equal((await stored(hidden)).status, 'free')
    })

    it('200 for an update by the owner, 422 for an immutable field, 409 once the row is locked', async () => {
      const id = await itemOf('cli_ada')
      const fixed = await ada('update', { id, values: { code: 'd' } })
      assert.deepEqual([fixed.status, fixed.errors[0]], [422, { field: 'code', message: 'cannot be changed' }])
      const { status, found } = await ada('update', { id, values: { status: 'sold', owner: 'client:cli_eve' } })
      assert.deepEqual([status, found.status, found.owner], [200, 'sold', 'client:cli_ada'])
      const locked = await ada('update', { id, values: { status: 'free' } })
      assert.deepEqual([locked.status, locked.errorCode], [409, 'RESOURCE_LOCKED'])
    })

    it('403 for an update that would take away the caller’s own write access to the row', async () => {
      const [id, shopId] = [await itemOf('cli_ada'), await shopOf('cli_eve', true)]
      const moved = await ada('update', { id, values: { shopId } })
      assert.deepEqual([moved.status, moved.errorCode], [403, 'PERMISSION_DENIED'])
    })

    it('404 for deleting an unreadable row, 403 for one that is only readable, RESOURCE_IN_USE for a referenced one', async () => {
      const [hidden, shown] = [await shopOf('cli_ada'), await shopOf('cli_ada', true)]
      const { shopId: used } = await stored(await itemOf('cli_ada'))
      assert.equal((await eve('remove', { id: hidden })).status, 404)
      assert.equal((await eve('remove', { id: shown })).status, 403)
      assert.deepEqual((await ada('remove', { id: used })).errorCode, 'RESOURCE_IN_USE')
      assert.equal((await ada('remove', { id: hidden })).status, 200)
      assert.equal((await ada('remove', { id: hidden })).status, 404)
    })
  })
})
