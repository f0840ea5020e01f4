import { DatabaseSync } from 'node:sqlite'
import Fastify from 'fastify'

/**
 * Fastify with `node:sqlite`, as a tutorial would write it: validated bodies, serialized responses, prepared statements,
 * and nothing else. Each write is one durable transaction. Environment: PEER_PORT and PEER_DATABASE.
 */
const { PEER_PORT, PEER_DATABASE = '' } = process.env
const db = new DatabaseSync(PEER_DATABASE)
db.exec('pragma journal_mode = wal; pragma synchronous = full')

const text = { type: 'string' }
const number = { type: 'number' }
const integer = { type: 'integer' }
const product = {
  type: 'object',
  properties: { id: integer, name: text, price: number, revision: integer, createdAt: text, updatedAt: text },
}
const body = {
  type: 'object',
  required: ['name', 'price'],
  properties: { name: { ...text, minLength: 1, maxLength: 200 }, price: { ...number, minimum: 0 } },
}
const params = { type: 'object', properties: { id: integer } }
const querystring = { type: 'object', properties: { limit: integer, after: { ...integer, default: 0 } } }

const columns = 'id, name, price, revision, created_at as "createdAt", updated_at as "updatedAt"'
const find = db.prepare(`select ${columns} from products where id = ?`)
const list = db.prepare(`select ${columns} from products where id > ? order by id limit ?`)
const insert = db.prepare(
  `insert into products (name, price, revision, created_at, updated_at) values (?, ?, 1, ?, ?) returning ${columns}`,
)
const update = db.prepare(
  `update products set name = ?, price = ?, revision = revision + 1, updated_at = ? where id = ? returning ${columns}`,
)

interface Routes {
  Params: { id: number }
  Querystring: { limit: number; after: number }
  Body: { name: string; price: number }
}

const app = Fastify()
app.get<Routes>('/products/:id', { schema: { params, response: { 200: product } } }, ({ params: { id } }, reply) => {
  const row = find.get(id)
  if (row) reply.send(row)
  else reply.code(404).send({ message: 'Not found' })
})
app.get<Routes>(
  '/products',
  { schema: { querystring, response: { 200: { type: 'array', items: product } } } },
  ({ query: { after, limit } }, reply) => {
    reply.send(list.all(after, limit))
  },
)
app.post<Routes>('/products', { schema: { body, response: { 201: product } } }, ({ body: { name, price } }, reply) => {
  const now = new Date().toISOString()
  reply.code(201).send(insert.get(name, price, now, now))
})
app.put<Routes>('/products/:id', { schema: { params, body, response: { 200: product } } }, (request, reply) => {
  const { name, price } = request.body
  const row = update.get(name, price, new Date().toISOString(), request.params.id)
  if (row) reply.send(row)
  else reply.code(404).send({ message: 'Not found' })
})
await app.listen({ host: '127.0.0.1', port: Number(PEER_PORT) })
process.on('SIGTERM', () => process.exit(0))
process.send?.('ready')
