import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { users } from '../../src/catalog/users.ts'
import { service } from '../../src/definition/service.ts'
import { openAccount } from '../../src/oauth/users/accounts.ts'
import { collection } from '../../src/resources/collection.ts'
import { Name, Price } from '../../src/resources/field-types.ts'
import { DefinitionError } from '../../src/startup-errors.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { liveRoutes } from '../support/live-routes.ts'

const body = Type.Object({ name: Name, price: Price, stock: Type.Optional(Type.Integer()) })
const products = collection({ path: '/products', noun: 'product', body, search: ['name'] })
const definition = service({ resources: [users, products] })
const scopes = Object.keys(definition.scopes).join(' ')

forEachEngine((engine) => {
  describe('a definition with the built-in users and its own resource at /products', () => {
    const app = appOn(engine, { definition })

    it('201, 200 and 204 for POST, GET and DELETE of users and products', async () => {
      for (const [path, payload] of [
        ['/users', { name: 'Ada', email: 'ada@example.com' }],
        ['/v2/products', { name: 'Lamp', price: 9.5, stock: 3 }],
      ] as const) {
        const made = await app.send({ method: 'POST', url: path, payload, scopes })
        assert.equal(made.statusCode, 201, made.body)
        const url = `${path}/${made.json().id}`
        const { id, createdAt: _, updatedAt: __, ...shown } = (await app.send({ url, scopes })).json()
        assert.deepEqual([id, shown], [made.json().id, payload])
        assert.equal((await app.send({ method: 'DELETE', url, scopes })).statusCode, 204)
      }
    })

    it('403 for the deletion of an administrator, if the token lacks the scope admin', async () => {
      const payload = { name: 'Root', email: 'root@example.com' }
      const { id } = (await app.send({ method: 'POST', url: '/users', payload, scopes })).json()
      await app.db.write((tx) => openAccount(tx, id, 'admin', app.clock.now))
      const url = `/users/${id}`
      assert.equal((await app.send({ method: 'DELETE', url, scopes: 'users:write' })).statusCode, 403)
    })

    it('cannot have a resource at a path that the service itself uses', () => {
      const own = new Set(definition.collections.map(({ declaration }) => declaration.name))
      const segments = new Set(liveRoutes(app.app).map(({ url }) => url.split('/')[1] as string))
      const names = [...segments].filter((name) => !own.has(name))
      assert.ok(names.length > 5 && names.includes('api') && names.includes('v2'), names.join())
      for (const name of names) {
        const taken = () => collection({ path: `/${name}`, noun: 'thing', body })
        assert.throws(taken, DefinitionError, name)
      }
    })
  })
})
