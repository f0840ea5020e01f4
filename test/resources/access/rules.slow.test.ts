import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { addUser, openAccount, type Role } from '../../../src/oauth/users/accounts.ts'
import { plinth, Title, Type } from '../../../src/plinth.ts'
import type { RuleCaller } from '../../../src/resources/access/rules.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const { collection, service } = plinth({
  claims: ({ user, client }) => ({ tenant: user?.email.split('@')[1] ?? /^crm_(\w+)$/.exec(client.id)?.[1] }),
})

const sameTenant = (caller: RuleCaller<{ tenant: string | undefined }>) => ({ tenant: caller.claims.tenant })

const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ tenant: Type.String({ maxLength: 40 }), text: Title }),
  filters: ['text', 'tenant'],
  search: ['text'],
  unique: ['text'],
  access: {
    read: (caller) => caller.is('admin') || sameTenant(caller),
    write: (caller) => ({ any: [{ createdBy: caller.id }, { text: { prefix: 'shared' }, ...sameTenant(caller) }] }),
  },
})

let failure: 'throws' | 'unknown' | 'undefined' | null = null
const broken = collection({
  path: '/broken',
  noun: 'broken',
  body: Type.Object({ text: Title }),
  access: () => {
    if (failure === 'throws') throw new Error('a mistake in a rule')
    if (failure === 'unknown') return { nothing: 1 } as never
    return failure === 'undefined' ? (undefined as never) : true
  },
})
const definition = service({ resources: [notes, broken] })
const scopes = Object.keys(definition.scopes).join(' ')

type Who = 'owner' | 'colleague' | 'stranger' | 'auditor' | 'machine' | 'administrator' | 'nobody'
const everyone: Who[] = ['owner', 'colleague', 'stranger', 'auditor', 'machine', 'administrator', 'nobody']

forEachEngine((engine) => {
  describe('a resource with access rules', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    const tokens = {} as Record<Who, string>
    before(async () => {
      const userToken = (email: string, role: Role = 'user') =>
        app.db.write(async (tx) => {
          const id = await addUser(tx, email, email, app.clock.now)
          await openAccount(tx, id, role, app.clock.now)
          return token(scopes.replace('admin', ''), 'cli_app', String(id))
        })
      Object.assign(tokens, {
        owner: await userToken('owner@north'),
        colleague: await userToken('colleague@north'),
        stranger: await userToken('stranger@south'),
        auditor: await userToken('auditor@central', 'admin'),
        machine: token(scopes, 'crm_north'),
        administrator: token(`${scopes} admin`, 'cli_admin'),
        nobody: token(scopes, 'cli_nobody'),
      })
    })
    const as = (who: Who, request: Parameters<TestApp['send']>[0]) => app.send({ token: tokens[who], ...request })
    let count = 0
    const create = async (who: Who, payload: object = {}) => {
      const body = { tenant: 'north', text: `note ${++count}`, ...payload }
      const created = await as(who, { method: 'POST', url: '/notes', payload: body })
      assert.equal(created.statusCode, 201, created.body)
      return created.json()
    }
    const statusesOf = async (request: Parameters<TestApp['send']>[0]) =>
      Object.fromEntries(
        await Promise.all(everyone.map(async (who) => [who, (await as(who, request)).statusCode] as const)),
      )
    const readers = { owner: 200, colleague: 200, auditor: 200, machine: 200 }
    const outside = { stranger: 404, administrator: 404, nobody: 404 }

    it('201 with the user or the machine client as createdBy, whatever the body says', async () => {
      assert.match((await create('owner')).createdBy, /^user:\d+$/)
      assert.equal((await create('machine')).createdBy, 'client:crm_north')
      const forged = await create('owner', { createdBy: 'client:crm_north' })
      assert.match(forged.createdBy, /^user:\d+$/)
    })

    it('200 or 304 for callers who may read a row, 404 for all others', async () => {
      const { id } = await create('owner')
      const url = `/notes/${id}`
      assert.deepEqual(await statusesOf({ url }), { ...readers, ...outside })
      assert.deepEqual(await statusesOf({ method: 'HEAD', url }), { ...readers, ...outside })
      assert.deepEqual(await statusesOf({ url: `${url}?fields=text` }), { ...readers, ...outside })
      const headers = { 'if-none-match': '"1"' }
      const unchanged = Object.fromEntries(Object.keys(readers).map((who) => [who, 304]))
      assert.deepEqual(await statusesOf({ url, headers }), { ...unchanged, ...outside })
      const unknown = await as('stranger', { url: '/notes/999999' })
      const unseen = await as('stranger', { url })
      assert.equal(unseen.json().detail.replace(id, ''), unknown.json().detail.replace('999999', ''))
    })

    it('200 with only the readable rows, in lists, filters, searches and exact counts', async () => {
      const south = await create('stranger', { tenant: 'south', text: 'needle of the south' })
      const north = await create('owner', { text: 'needle of the north' })
      const expected: Record<Who, number[]> = {
        ...{ owner: [north.id], colleague: [north.id], machine: [north.id], stranger: [south.id] },
        ...{ auditor: [south.id, north.id], administrator: [], nobody: [] },
      }
      for (const who of everyone) {
        const idsOf = async (query: string) => {
          const response = await as(who, { url: `/notes?${query}`, headers: { prefer: 'count=exact' } })
          assert.equal(response.statusCode, 200)
          const ids: number[] = response.json().map(({ id }: { id: number }) => id)
          return { ids, total: Number(response.headers['x-total-count']) }
        }
        assert.deepEqual((await idsOf('q=needle')).ids, expected[who], who)
        assert.equal((await idsOf('q=needle&limit=1')).total, expected[who].length, who)
        assert.deepEqual(
          (await idsOf('text=needle%20of%20the%20south')).ids,
          who === 'auditor' || who === 'stranger' ? [south.id] : [],
        )
        // Send the request twice, so that the second response comes from the page cache.
        for (let round = 0; round < 2; round++) {
          const all = (await idsOf('limit=200&sort=-id')).ids
          assert.equal(all.includes(north.id), expected[who].includes(north.id), who)
          assert.equal(all.includes(south.id), expected[who].includes(south.id), who)
        }
      }
    })

    it('200, 403 or 404 for PUT, PATCH and DELETE, depending on what the caller may read and write', async () => {
      const { id, tenant, text } = await create('owner')
      const url = `/notes/${id}`
      const refused = { colleague: 403, auditor: 403, machine: 403, ...outside }
      const patched = { headers: { 'content-type': 'application/merge-patch+json' }, payload: { tenant } }
      for (const request of [
        { method: 'PUT', url, payload: { tenant, text } },
        { method: 'PATCH', url, ...patched },
        { method: 'DELETE', url, headers: { 'if-match': '"999"' } },
      ] as const) {
        const { owner, ...others } = await statusesOf(request)
        assert.deepEqual(others, refused, request.method)
        assert.equal(owner, request.method === 'DELETE' ? 412 : 200)
      }
      const denied = await as('colleague', { method: 'DELETE', url })
      assert.equal(denied.json().errorCode, 'PERMISSION_DENIED')
      assert.doesNotMatch(denied.json().detail, new RegExp(String(id)))
      assert.equal((await as('owner', { url })).json().text, text)
      assert.equal((await as('owner', { method: 'DELETE', url })).statusCode, 204)
      assert.equal((await as('owner', { url })).statusCode, 404)
    })

    it('200 for a PUT by another user whom the write rule allows; createdBy stays the same', async () => {
      const { id, createdBy } = await create('owner', { text: 'shared list' })
      const payload = { tenant: 'north', text: 'shared list, changed' }
      const changed = await as('colleague', { method: 'PUT', url: `/notes/${id}`, payload })
      assert.equal(changed.statusCode, 200)
      assert.equal(changed.json().createdBy, createdBy)
    })

    it('403 for a POST, PUT or PATCH resulting in a row that the caller may not write; nothing is stored', async () => {
      const before = (await as('auditor', { url: '/notes?limit=200' })).json().length
      const foreign = { tenant: 'south', text: 'planted' }
      for (const who of ['owner', 'machine', 'nobody', 'administrator'] as const) {
        const response = await as(who, { method: 'POST', url: '/notes', payload: foreign })
        assert.equal(response.statusCode, 403, who)
        assert.match(response.json().detail, /\/notes/)
      }
      const { id } = await create('owner')
      for (const request of [
        { method: 'PUT', payload: { ...foreign, text: `moved ${id}` } },
        { method: 'PATCH', payload: { tenant: 'south' }, headers: { 'content-type': 'application/merge-patch+json' } },
      ] as const) {
        assert.equal((await as('owner', { url: `/notes/${id}`, ...request })).statusCode, 403, request.method)
      }
      const { tenant, updatedAt, createdAt } = (await as('owner', { url: `/notes/${id}` })).json()
      assert.deepEqual([tenant, updatedAt], ['north', createdAt])
      assert.equal((await as('auditor', { url: '/notes?limit=200' })).json().length, before + 1)
    })

    it('401 without a token, 403 without the scope, regardless of the rules', async () => {
      const { id } = await create('owner')
      for (const url of ['/notes', `/notes/${id}`]) {
        assert.equal((await app.send({ url, scopes: null })).statusCode, 401)
        assert.equal((await app.send({ url, scopes: 'notes:write' })).statusCode, 403)
      }
    })

    it('applies a changed role within five seconds', async () => {
      const { id } = await create('owner')
      const url = `/notes/${id}`
      const userId = Number(Buffer.from(tokens.auditor, 'base64url').toString().split('|')[1])
      assert.equal((await as('auditor', { url })).statusCode, 200)
      const setRole = (role: Role) =>
        app.db.write((tx) => tx.updateTable('accounts').set({ role }).where('userId', '=', userId).execute())
      await setRole('user')
      app.clock.now += 5_000
      assert.equal((await as('auditor', { url })).statusCode, 404)
      await setRole('admin')
      app.clock.now += 5_000
      assert.equal((await as('auditor', { url })).statusCode, 200)
    })
  })

  describe('an access rule that fails', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    it('500 for GET, POST, PUT and DELETE; no row is created, changed or deleted', async () => {
      failure = null
      const created = await app.send({ method: 'POST', url: '/broken', payload: { text: 'x' }, scopes })
      const url = `/broken/${created.json().id}`
      for (failure of ['throws', 'unknown', 'undefined'] as const) {
        for (const request of [
          { url: '/broken' },
          { url },
          { method: 'POST', url: '/broken', payload: { text: 'y' } },
          { method: 'PUT', url, payload: { text: 'y' } },
          { method: 'DELETE', url },
        ] as const) {
          const response = await app.send({ ...request, scopes })
          assert.equal(response.statusCode, 500, failure)
        }
      }
      failure = null
      const left = await app.send({ url: '/broken', scopes })
      assert.deepEqual(
        left.json().map(({ text }: { text: string }) => text),
        ['x'],
      )
      assert.equal(app.faults.length, 15)
      app.faults.length = 0
    })
  })
})
