import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Line, plinth, Type } from '../../src/plinth.ts'
import { appOn, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const { service } = plinth({
  users: {
    fields: Type.Object({ tenant: Line(1, 40), nickname: Line(1, 40) }),
    roles: ['member', 'auditor'],
    own: ['phone', 'nickname'],
  },
})
const definition = service({ resources: [] })

const base = ['name', 'email', 'phone']
const added = ['tenant', 'nickname', 'role']
const own = ['phone', 'nickname']
type User = Record<string, string | undefined>
type Who = 'self' | 'other' | 'machine'
interface Change {
  who: Who
  scopes: string[]
  method: 'PUT' | 'PATCH'
  body: User
}

/** Returns what the naive model expects: the status of a change, the fields in a 403, and the user after a 200. */
function expected(stored: User, { who, scopes, method, body }: Change) {
  const [may, isSelf] = [new Set(scopes), who === 'self']
  if (!may.has('users:write') && !may.has('users:write:own')) return { status: 403, fields: [] }
  if (!isSelf && !may.has('users:read:full')) return { status: 404, fields: [] }
  if (!isSelf && !may.has('users:write')) return { status: 403, fields: [] }
  const mayWrite = (field: string) =>
    may.has(added.includes(field) ? 'admin' : 'users:write') || (isSelf && own.includes(field))
  const next = { ...stored, ...body }
  if (method === 'PUT' && body.phone === undefined && mayWrite('phone')) next.phone = undefined
  const refused = [...base, ...added].filter((field) => next[field] !== stored[field] && !mayWrite(field))
  return refused.length > 0 ? { status: 403, fields: refused } : { status: 200, fields: [], next }
}

const allScopes = ['users:read', 'users:read:full', 'users:write', 'users:write:own', 'admin']
const value = (...values: string[]) => fc.option(fc.constantFrom(...values), { nil: undefined })
const change: fc.Arbitrary<Change> = fc.record({
  who: fc.constantFrom<Who>('self', 'self', 'other', 'machine'),
  scopes: fc.subarray(allScopes),
  method: fc.constantFrom('PUT' as const, 'PATCH' as const),
  body: fc
    .record({
      name: fc.constantFrom('Ada', 'Ada', 'Eve'),
      email: fc.constantFrom('a@example.com', 'a@example.com', 'b@example.com'),
      phone: value('1', '2'),
      tenant: value('north', 'south'),
      nickname: value('x', 'y'),
      role: value('member', 'auditor'),
    })
    .map((body) => Object.fromEntries(Object.entries(body).filter(([, text]) => text !== undefined)) as User),
})

const runs = Number(process.env.RUNS ?? 20)

forEachEngine((engine) => {
  describe('random changes to a user by random callers', () => {
    const app = appOn(engine, { prefixes: [''], definition })

    it('have the same status and effect as in a naive in-memory model (T-API-10)', async () => {
      const administrator = { scopes: `${allScopes.join(' ')}` }
      const property = fc.asyncProperty(fc.array(change, { minLength: 5, maxLength: 20 }), async (changes) => {
        const first = { name: 'Ada', email: 'a@example.com' }
        const created = await app.send({ method: 'POST', url: '/users', payload: first, ...administrator })
        assert.equal(created.statusCode, 201, created.body)
        const url = `/users/${created.json().id}`
        let stored: User = first
        for (const one of changes) {
          const subjects = { self: String(created.json().id), other: '999999', machine: 'cli_app' }
          const bearer = { token: token(one.scopes.join(' '), 'cli_app', subjects[one.who]) }
          const { status, fields, next } = expected(stored, one)
          const response = await app.send({ method: one.method, url, payload: one.body, ...bearer })
          const { errors = [] } = response.json()
          const named = errors.map(({ field }: { field: string }) => field)
          assert.deepEqual([response.statusCode, named.sort()], [status, fields.sort()], JSON.stringify([one, stored]))
          stored = next ?? stored
          const shown = (await app.send({ url, ...administrator })).json()
          for (const field of [...base, ...added]) assert.equal(shown[field], stored[field], JSON.stringify(one))
        }
        assert.equal((await app.send({ method: 'DELETE', url, ...administrator })).statusCode, 204)
      })
      await fc.assert(property, { numRuns: runs, ...(process.env.SEED && { seed: Number(process.env.SEED) }) })
    })
  })
})
