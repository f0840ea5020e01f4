import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Line, plinth, Type } from '../../src/plinth.ts'
import type { Database } from '../../src/storage/database.ts'
import { appOn } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { type Documented, documentedApp } from '../support/openapi.ts'

const { service } = plinth({
  users: {
    fields: Type.Object({ tenant: Line(1, 40, { description: 'The branch' }), level: Type.Integer() }),
    roles: ['member', 'auditor'],
    own: ['phone', 'level'],
    userinfo: ['tenant', 'role'],
  },
})

onSqlite((engine) => {
  describe('the OpenAPI document of a service that adds fields and roles to users', () => {
    let documented: Documented
    let db: Database
    before(async () => {
      db = await engine.database()
      documented = await documentedApp(db, { definition: service({ resources: [] }) })
    })
    after(async () => {
      await documented.service.app.close()
      await db.close()
    })

    it('has the added fields in responses, bodies and filters, and documents who may write them', () => {
      const { components, paths } = documented.document
      const { User, UserItem, UserCreate } = components.schemas
      for (const { properties, required } of [User, UserItem, UserCreate]) {
        assert.equal(properties.tenant.description, 'The branch; written by administrators')
        assert.equal(properties.level.description, 'Written by the user and by administrators')
        assert.deepEqual(properties.role.enum, ['member', 'auditor'])
        assert.ok(!['tenant', 'level', 'role'].some((field) => required.includes(field)))
      }
      const parameters = JSON.stringify(documented.inlined(paths['/users'].get.parameters))
      for (const name of ['tenant', 'level', 'role', 'tenant[in]'])
        assert.ok(parameters.includes(`"name":"${name}"`), name)
    })

    it('has the scope users:write:own for PUT and PATCH, and 403 PERMISSION_DENIED for writes', () => {
      const { components, paths } = documented.document
      const { scopes } = components.securitySchemes.oauth2.flows.authorizationCode
      assert.equal(scopes['users:write:own'], 'Change your own phone, level')
      const { get, put, patch, delete: remove } = paths['/users/{id}']
      const isOpen = (operation: { security: object[] }) =>
        JSON.stringify(operation.security).includes('users:write:own')
      assert.deepEqual([get, put, patch, remove, paths['/users'].post].map(isOpen), [false, true, true, false, false])
      for (const operation of [put, patch, remove, paths['/users'].post]) {
        assert.match(JSON.stringify(operation.responses), /PERMISSION_DENIED/)
      }
    })

    it('lists the declared roles for invitations, and the fields that the definition selects for userinfo', () => {
      const { UserInviteRequest, UserInfo } = documented.document.components.schemas
      assert.match(JSON.stringify(UserInviteRequest.properties.role), /"auditor"/)
      assert.deepEqual(Object.keys(UserInfo.properties), ['sub', 'name', 'email', 'tenant', 'role'])
    })
  })

  describe('the OpenAPI document of a service that adds nothing to users', () => {
    const app = appOn(engine)

    it('does not contain the scope users:write:own', async () => {
      assert.doesNotMatch((await app.send({ url: '/openapi.json', scopes: null })).body, /users:write:own/)
    })
  })
})

it('the first example of added fields and roles in docs/resources.md runs', async () => {
  const page = readFileSync(new URL('../../docs/resources.md', import.meta.url), 'utf8')
  const [, example = ''] = /## Fields and roles of users\n[\s\S]*?```ts\n([\s\S]*?)```/.exec(page) ?? []
  const source = example.replace("from 'plinth'", `from '${new URL('../../src/plinth.ts', import.meta.url)}'`)
  const { default: definition } = await import(`data:text/javascript,${encodeURIComponent(source)}`)
  assert.deepEqual(definition.users.roles, ['member', 'auditor'])
  assert.ok('users:write:own' in definition.scopes)
})
