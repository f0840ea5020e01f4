import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { TokenVerification } from '../../../src/http/policies/authenticate.ts'
import { collection, service as define, Type } from '../../../src/plinth.ts'
import type { Database } from '../../../src/storage/database.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { openDatabase } from '../../../src/storage/open.ts'
import { type TestApp, testApp, token } from '../../support/app.ts'
import { forEachEngine, type Place } from '../../support/engines.ts'
import { openEventStream, originOf } from '../../support/event-streams.ts'
import { drivenTimers, until } from '../../support/timers.ts'
import { definition, peopleOn, scopes } from '../access/tenants.ts'

const merge = { 'content-type': 'application/merge-patch+json' }
const text = 'x'.repeat(60_000)
const documents = collection({
  path: '/documents',
  noun: 'document',
  body: Type.Object({ text: Type.String({ maxLength: 100_000 }), number: Type.Integer() }),
})

forEachEngine((engine) => {
  describe('an event stream of a resource with access rules, on two nodes', () => {
    const timers = drivenTimers()
    const refused = new Map<string, 'AUTH_TOKEN_EXPIRED' | 'AUTH_TOKEN_INVALID'>()
    const withoutScopes = new Set<string>()
    const verify = (bearer: string): TokenVerification => {
      const [clientId = '', subject = '', granted = ''] = Buffer.from(bearer, 'base64url').toString().split('|')
      const reason = refused.get(bearer)
      if (reason) return { refused: reason }
      return { caller: { clientId, subject, scopes: new Set(withoutScopes.has(bearer) ? [] : granted.split(' ')) } }
    }
    let place: Place
    let dbs: Database[]
    let [one, other] = [{} as TestApp, {} as TestApp]
    let origin: string
    let people: Awaited<ReturnType<typeof peopleOn>>
    before(async () => {
      place = await engine.migratedPlace()
      dbs = [await openDatabase(place.url), await openDatabase(place.url)]
      const [db1, db2] = dbs as [Database, Database]
      await migrate(db1, { tables: definition.tables })
      one = await testApp(db1, { prefixes: [''], definition, verify, later: timers.later })
      other = await testApp(db2, { prefixes: [''], definition, verify })
      origin = await originOf(one.app)
      people = await peopleOn(db1, Date.now())
    })
    after(async () => {
      const closed = Promise.all([one.app.close(), other.app.close()])
      let isClosed = false
      closed.finally(() => {
        isClosed = true
      })
      await until(() => {
        timers.pass(50)
        return isClosed
      })
      for (const db of dbs) await db.close()
      await place.remove()
      assert.deepEqual([...one.faults, ...other.faults], [])
    })

    const note = (tenant: string, words = 'a note') => ({ tenant, text: words, pin: '4711' })
    /** Creates a note on the other node. */
    const create = async (tenant: string, words?: string) =>
      (
        await other.send({
          ...{ method: 'POST', url: '/notes', payload: note(tenant, words) },
          token: people.tokens.auditor,
        })
      ).json()
    const patch = (id: number, payload: object) =>
      other.send({ method: 'PATCH', url: `/notes/${id}`, payload, headers: merge, token: people.tokens.auditor })
    const open = (who: keyof typeof people.tokens, path = '/notes', headers = {}) =>
      openEventStream(origin + path, people.tokens[who], headers)
    /** Advances the first node's timers until the promise has settled. */
    const passing = async <T>(promise: Promise<T>, ms = 100): Promise<T> => {
      let isSettled = false
      promise
        .finally(() => {
          isSettled = true
        })
        .catch(() => {})
      await until(() => {
        if (!isSettled) timers.pass(ms)
        return isSettled
      })
      return promise
    }

    it('200 with changes made on another node to rows that the caller can read', async () => {
      const [owner, stranger, auditor] = [await open('owner'), await open('stranger'), await open('auditor')]
      const north = await create('north')
      const south = await create('south')
      assert.deepEqual((await passing(owner.event()))?.data, north)
      assert.deepEqual((await passing(stranger.event()))?.data, south)
      assert.deepEqual((await passing(auditor.event()))?.data, north)
      assert.deepEqual((await passing(auditor.event()))?.data, south)
      for (const stream of [owner, stranger, auditor]) await stream.close()
    })

    it('200 with `removed` and only the id when the caller can no longer read a row', async () => {
      const { id } = await create('north')
      const [owner, stranger] = [await open('owner'), await open('stranger')]
      const single = await open('owner', `/notes/${id}`)
      assert.equal((await patch(id, { tenant: 'south' })).statusCode, 200)
      assert.deepEqual((await passing(owner.event()))?.event, 'removed')
      const removed = await passing(single.event())
      assert.deepEqual([removed?.event, removed?.data], ['removed', { id }])
      assert.equal(await passing(single.event()), undefined)
      const moved = await passing(stranger.event())
      assert.deepEqual([moved?.event, moved?.data?.tenant], ['updated', 'south'])
      await patch(id, { text: 'unseen' })
      await create('north', 'the next')
      assert.equal((await passing(owner.event()))?.data?.text, 'the next')
      await owner.close()
      await stranger.close()
    })

    it('404 for a row that the caller cannot read', async () => {
      const { id } = await create('south')
      const stream = await open('owner', `/notes/${id}`)
      assert.equal(stream.status, 404)
      await stream.body.dump()
    })

    it('omits write-only fields', async () => {
      const stream = await open('owner')
      await create('north')
      assert.equal((await passing(stream.event()))?.data?.pin, undefined)
      await stream.close()
    })

    it('sends `reset` when the caller’s access changes', async () => {
      const stream = await open('colleague')
      await people.move('colleague', 'south')
      one.clock.now += 5_001
      assert.equal((await passing(stream.event(), 5_000))?.event, 'reset')
      const south = await create('south')
      assert.deepEqual((await passing(stream.event()))?.data, south)
      await stream.close()
      await people.move('colleague', 'north')
    })

    const endings: [string, (bearer: string) => void][] = [
      ['the token is revoked', (bearer) => refused.set(bearer, 'AUTH_TOKEN_INVALID')],
      ['the token expires', (bearer) => refused.set(bearer, 'AUTH_TOKEN_EXPIRED')],
      ['the token loses the read scope', (bearer) => withoutScopes.add(bearer)],
    ]
    for (const [at, [reason, endAccess]] of endings.entries()) {
      it(`ends the caller’s streams of a list and of a row, but no others, when ${reason}`, async () => {
        const { id } = await create('north')
        const bearer = token(scopes, `crm_north`, `ending_${at}`)
        const opened = [
          await openEventStream(`${origin}/notes`, bearer),
          await openEventStream(`${origin}/notes/${id}`, bearer),
        ]
        const other = await open('owner')
        for (const stream of opened) assert.equal(stream.status, 200)
        endAccess(bearer)
        for (const stream of opened) assert.equal(await passing(stream.event(), 5_000), undefined)
        const created = await create('north')
        assert.deepEqual((await passing(other.event()))?.data, created)
        await other.close()
      })
    }

    it('sends heartbeats while nothing changes', async () => {
      const stream = await open('owner')
      await stream.next()
      const beats = [await passing(stream.next(), 5_000), await passing(stream.next(), 5_000)]
      assert.deepEqual(
        beats.map((beat) => beat?.comment),
        ['heartbeat', 'heartbeat'],
      )
      await stream.close()
    })

    it('resumes after the id of a heartbeat', async () => {
      const stream = await open('owner')
      const first = await stream.next()
      await create('south')
      let beat = first
      while (beat?.id === undefined || beat.id === first?.id) beat = await passing(stream.next())
      assert.equal(beat.comment, 'heartbeat')
      await stream.close()
      const resumed = await open('owner', '/notes', { 'last-event-id': beat.id })
      const created = await create('north')
      assert.deepEqual((await passing(resumed.event()))?.data, created)
      await resumed.close()
    })
  })

  describe('an event stream whose client stops reading', () => {
    it('is closed, and can be resumed without missing a change', async () => {
      const db = await engine.database()
      const definition = define({ resources: [documents] })
      await migrate(db, { tables: definition.tables })
      const { app, send, faults } = await testApp(db, { prefixes: [''], definition })
      const origin = await originOf(app)
      const bearer = token(Object.keys(definition.scopes).join(' '))
      const slow = await openEventStream(`${origin}/documents`, bearer)
      let last = (await slow.next())?.id
      slow.body.pause()
      const written = 400
      for (let number = 1; number <= written; number++) {
        const payload = { text, number }
        assert.equal((await send({ method: 'POST', url: '/documents', payload, token: bearer })).statusCode, 201)
      }
      const numbers: unknown[] = []
      const readAll = async (stream: typeof slow) => {
        for (let event = await stream.event(); event !== undefined; event = await stream.event()) {
          numbers.push(event.data?.number)
          last = event.id
          if (numbers.length === written) return
        }
      }
      await assert.rejects(readAll(slow))
      assert.ok(numbers.length < written)
      const resumed = await openEventStream(`${origin}/documents`, bearer, { 'last-event-id': String(last) })
      await readAll(resumed)
      assert.deepEqual(
        numbers,
        Array.from({ length: written }, (_, at) => at + 1),
      )
      await resumed.close()
      await app.close()
      await db.close()
      assert.deepEqual(faults, [])
    })
  })
})
