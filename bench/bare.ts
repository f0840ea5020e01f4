import { readFileSync } from 'node:fs'
import Fastify from 'fastify'
import { Type } from 'typebox'
import { products } from '../src/catalog/products.ts'
import { listQuerySchema } from '../src/resources/list-query.ts'
import { representation } from '../src/resources/representation.ts'

/**
 * The reference: Fastify as it comes, answering constants of the service's size through the service's schemas. Told by
 * BARE_PORT, BARE_ANSWERS (JSON `{ read, page, created }`) and, for HTTPS, BARE_PEM: a file of key and certificates.
 */
const { BARE_PORT, BARE_ANSWERS = '', BARE_PEM } = process.env
const { read, page, created } = JSON.parse(BARE_ANSWERS) as Record<'read' | 'page' | 'created', object>
const pem = BARE_PEM && readFileSync(BARE_PEM)

const { declaration } = products
const shape = representation(declaration)
const params = Type.Object({ id: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }) })
const querystring = Type.Object({ fields: Type.Optional(Type.String()) })
const listed = listQuerySchema({ ...declaration, path: declaration.path })

const app = Fastify({ https: pem ? { key: pem, cert: pem, minVersion: 'TLSv1.2' } : null })
// No async functions: the reference is the fastest form.
app.get('/products/:id', { schema: { params, querystring, response: { 200: shape } } }, (_request, reply) => {
  reply.send(read)
})
app.get('/products', { schema: { querystring: listed, response: { 200: Type.Array(shape) } } }, (_request, reply) => {
  reply.send(page)
})
app.put(
  '/products/:id',
  { schema: { params, body: declaration.body, response: { 200: shape } } },
  (_request, reply) => {
    reply.send(read)
  },
)
app.post('/products', { schema: { body: declaration.body, response: { 201: shape } } }, (_request, reply) => {
  reply.code(201).send(created)
})
await app.listen({ host: '127.0.0.1', port: Number(BARE_PORT) })
process.send?.('ready')
process.on('SIGTERM', () => process.exit(0))
