import { DatabaseSync } from 'node:sqlite'
import Fastify from 'fastify'
import { Type } from 'typebox'
import { nextLink, type Product, productsIn } from './products.ts'

/**
 * Products on Fastify and `node:sqlite`, with schemas for requests and responses and nothing else. Environment: PEER_PORT
 * and PEER_DATABASE.
 */
const { PEER_PORT, PEER_DATABASE = '' } = process.env
const products = productsIn(new DatabaseSync(PEER_DATABASE))

const id = Type.Integer({ minimum: 1 })
const params = Type.Object({ id })
const querystring = Type.Object({
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20 }),
  after: Type.Integer({ minimum: 0, default: 0 }),
})
const values = { name: Type.String({ minLength: 1, maxLength: 200 }), price: Type.Number({ minimum: 0 }) }
const body = Type.Object(values)
const product = Type.Object({ id, ...values, createdAt: Type.String(), updatedAt: Type.String() })
const missing = { message: 'There is no product with this id' }

interface ById {
  Params: { id: number }
}
interface Page {
  Querystring: { limit: number; after: number }
}
interface Write {
  Body: Pick<Product, 'name' | 'price'>
}

const app = Fastify()
// The handlers are not async, because async handlers would be slower.
app.get<ById>('/products/:id', { schema: { params, response: { 200: product } } }, ({ params }, reply) => {
  const found = products.read(params.id)
  found ? reply.send(found) : reply.code(404).send(missing)
})
app.get<Page>('/products', { schema: { querystring, response: { 200: Type.Array(product) } } }, ({ query }, reply) => {
  const page = products.list(query.after, query.limit)
  const link = nextLink(page, query.limit)
  if (link) reply.header('link', link)
  reply.send(page)
})
app.post<Write>('/products', { schema: { body, response: { 201: product } } }, ({ body }, reply) => {
  const created = products.create(body)
  reply.code(201).header('location', `/products/${created.id}`).send(created)
})
app.put<ById & Write>(
  '/products/:id',
  { schema: { params, body, response: { 200: product } } },
  ({ params, body }, reply) => {
    const replaced = products.replace(params.id, body)
    replaced ? reply.send(replaced) : reply.code(404).send(missing)
  },
)
await app.listen({ host: '127.0.0.1', port: Number(PEER_PORT) })
process.send?.('ready')
