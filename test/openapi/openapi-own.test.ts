import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { collection, Ref, service, Title, Type } from '../../src/plinth.ts'
import { appOn } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import type { Json } from '../support/openapi.ts'

const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ title: Title }, { examples: [{ title: 'Call the printer' }] }),
  filters: ['title'],
})

const info = {
  title: 'Notes',
  version: '2.3.0',
  description: 'What the office must not forget.',
  license: { name: 'Proprietary', url: 'https://notes.example/terms' },
  contact: { name: 'The office', email: 'office@notes.example' },
}

onSqlite((engine) => {
  const documentsOf = (options: object) => {
    const definition = service({ ...options, resources: [notes] })
    const app = appOn(engine, { definition })
    return async (url: string): Promise<Json> => (await app.send({ url, scopes: null })).json()
  }

  describe('the document of a custom service', () => {
    const read = documentsOf(info)

    it('has the title, version, description, license and contact of its definition', async () => {
      const { info: found } = await read('/openapi.json')
      const { description, ...rest } = info
      assert.deepEqual({ ...found, description: undefined }, { ...rest, description: undefined })
      assert.ok(found.description.startsWith(`${description}\n\n`))
      assert.equal((await read('/v2/openapi.json')).info.title, 'Notes v2')
    })

    it("covers only the service's resources and uses them as tags", async () => {
      for (const url of ['/openapi.json', '/v2/openapi.json']) {
        const document = await read(url)
        const text = JSON.stringify(document)
        assert.deepEqual(text.match(/Plinth|\b(products?|books?|genre|inventory)\b/g), null)
        const names = document.tags.map(({ name }: Json) => name)
        assert.ok(names.includes('notes') && !names.includes('users'))
        for (const { description } of document.tags) assert.ok(description)
      }
    })
  })

  describe('the document of related resources', () => {
    const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Title }) })
    const labels = collection({
      path: '/labels',
      noun: 'label',
      body: Type.Object({ name: Title }),
      operations: ['list'],
    })
    const body = Type.Object({ customerId: Ref(customers), labelId: Ref(labels), name: Title })
    const orders = collection({ path: '/orders', noun: 'order', body })
    const definition = service({ resources: [customers, labels, orders] })
    const app = appOn(engine, { definition })

    it('links a single resource to the operations that read its related rows', async () => {
      const { paths } = (await app.send({ url: '/openapi.json', scopes: null })).json()
      const linksOf = (path: string) => paths[path].get.responses['200'].links
      assert.deepEqual(linksOf('/orders/{id}'), {
        customer: { operationId: 'readCustomer', parameters: { id: '$response.body#/customerId' } },
      })
      assert.deepEqual(linksOf('/customers/{id}'), {
        orders: { operationId: 'listOrdersOfCustomer', parameters: { id: '$response.body#/id' } },
      })
      assert.equal(linksOf('/orders'), undefined)
    })
  })

  describe('the document of a service without info', () => {
    const read = documentsOf({})

    it('has a title, a version, a description and the service URL as contact, but no license', async () => {
      const { info: found, servers } = await read('/openapi.json')
      assert.deepEqual(Object.keys(found), ['title', 'version', 'description', 'contact'])
      for (const name of ['title', 'version', 'description']) assert.match(found[name], /\S/, name)
      assert.match(servers[0].url, /^https:/)
      assert.deepEqual(found.contact, { name: 'Service', url: servers[0].url })
    })
  })
})

describe('service()', () => {
  const refusals: [options: object, message: RegExp][] = [
    [{ title: '' }, /title must be a non-empty string/],
    [{ version: 2 }, /version must be a non-empty string/],
    [{ license: 'MIT' }, /license must be an object/],
    [{ license: { url: 'https://notes.example/terms' } }, /license\.name must be a non-empty string/],
    [
      { license: { name: 'MIT', identifier: 'MIT', url: 'https://x.example/' } },
      /must not have both an identifier and a url/,
    ],
    [{ contact: { phone: '1' } }, /contact has an unknown member 'phone'; expected name, url, email/],
  ]
  for (const [options, message] of refusals) {
    it(`rejects ${JSON.stringify(options)}`, () => {
      assert.throws(() => service({ ...options, resources: [notes] }), message)
    })
  }
})
