import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  describe('PUT /users/{id} by a caller who cannot see every field', () => {
    const service = appOn(engine, { prefixes: [''] })

    it('200; hidden fields keep their values unless the body sets them', async () => {
      const { send } = service
      const user = { name: 'Ada', email: 'ada@plinth.test', phone: '+44 1', address: 'London' }
      assert.equal((await send({ method: 'POST', url: '/users', payload: user })).statusCode, 201)
      const seen = (await send({ url: '/users/1' })).json()
      assert.equal(seen.phone, undefined)
      const put = (payload: object) => send({ method: 'PUT', url: '/users/1', payload })
      assert.equal((await put({ ...seen, name: 'Ada L.' })).statusCode, 200)
      const full = async () => (await send({ url: '/users/1', scopes: 'users:read users:read:full' })).json()
      assert.deepEqual(
        [(await full()).name, (await full()).phone, (await full()).address],
        ['Ada L.', '+44 1', 'London'],
      )
      assert.equal((await put({ ...seen, phone: '2' })).statusCode, 200)
      assert.equal((await full()).phone, '2')
    })
  })
})
