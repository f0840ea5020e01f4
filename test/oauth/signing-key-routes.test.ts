import assert from 'node:assert/strict'
import { before, beforeEach, describe, it } from 'node:test'
import { operator } from '../../src/audit/chain.ts'
import { rotateOnRequest } from '../../src/oauth/keys/rotation.ts'
import { createKey, type StoredKey } from '../../src/oauth/keys/stored-keys.ts'
import { iso } from '../../src/storage/ids.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { sealer } from './support.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

interface Key {
  kid: string
  state: string
  signsFrom: string
  signsUntil: string
  retiresAt: string
}

forEachEngine((engine) => {
  let reloads = 0
  const failures: unknown[] = []
  const reloadKeys = async () => {
    reloads++
    if (failures.length > 0) throw failures.pop()
  }
  const service = appOn(engine, { prefixes: [''], sealer, reloadKeys })
  const rotate = (payload: object = {}, headers: Record<string, string> = {}, scopes = 'admin') =>
    service.send({ method: 'POST', url: '/api/signing-keys/rotate', payload, headers, scopes })
  const keys = async (): Promise<Key[]> => (await service.send({ url: '/api/signing-keys', scopes: 'admin' })).json()
  const states = async () => (await keys()).map(({ kid, state }) => [kid, state])
  const pass = (ms: number) => {
    service.clock.now += ms
  }
  let initial: StoredKey
  before(async () => {
    initial = await createKey(sealer, '', '')
  })
  /** Leaves one key, created a millisecond ago, because keys created at the same instant have no defined order. */
  beforeEach(async () => {
    const createdAt = iso(service.clock.now)
    await service.db.write(async (tx) => {
      await tx.deleteFrom('signingKeys').execute()
      await tx
        .insertInto('signingKeys')
        .values({ ...initial, createdAt, activeFrom: createdAt })
        .execute()
    })
    assert.deepEqual(await states(), [[initial.kid, 'signing']])
    pass(1)
    reloads = 0
  })

  describe('GET /api/signing-keys', () => {
    it('200 with the state and the schedule of each key, without private parts', async () => {
      const [first] = await keys()
      const start = service.clock.now - 1
      const at = (ms: number) => new Date(start + ms).toISOString()
      assert.deepEqual(first, {
        ...{ kid: first?.kid, algorithm: 'RS256', state: 'signing', createdAt: at(0), signsFrom: at(0) },
        ...{ signsUntil: at(90 * dayMs), retiresAt: at(91 * dayMs + hourMs) },
      })
      const { published } = (await rotate()).json()
      assert.equal(published.signsFrom, at(dayMs + 1))
      const ends = async () => (await keys()).map(({ state, signsUntil }) => [state, signsUntil])
      const expected = [at(91 * dayMs + 1), at(dayMs + 1)]
      assert.deepEqual(await ends(), [
        ['published', expected[0]],
        ['signing', expected[1]],
      ])
      pass(dayMs)
      assert.deepEqual(await ends(), [
        ['signing', expected[0]],
        ['verifying', expected[1]],
      ])
      const { body } = await service.send({ url: '/api/signing-keys', scopes: 'admin' })
      assert.deepEqual(Object.keys(JSON.parse(body)[0]).sort(), Object.keys(first ?? {}).sort())
    })

    it('403 without the admin scope', async () => {
      assert.equal((await service.send({ url: '/api/signing-keys', scopes: 'audit:read' })).statusCode, 403)
    })
  })

  describe('POST /api/signing-keys/rotate', () => {
    it('200 with a key that signs a day later, or null while such a key is pending; reloads the keys each time', async () => {
      const [first] = await keys()
      const { published, retired } = (await rotate()).json()
      assert.deepEqual(retired, [])
      assert.deepEqual((await rotate()).json(), { published: null, retired: [] })
      assert.deepEqual(await states(), [
        [published.kid, 'published'],
        [first?.kid, 'signing'],
      ])
      assert.equal(reloads, 2)
    })

    it('200 with `immediately`: the new key signs at once, a pending key is removed, and the old key still verifies', async () => {
      const [first] = await keys()
      const waiting = (await rotate()).json().published.kid
      const { published, retired } = (await rotate({ immediately: true })).json()
      assert.deepEqual(retired, [waiting])
      assert.deepEqual(await states(), [
        [published.kid, 'signing'],
        [first?.kid, 'verifying'],
      ])
    })

    it('200 with `discard`: only the new key is left, and the audit log names the caller', async () => {
      const [first] = await keys()
      const { published, retired } = (await rotate({ discard: true })).json()
      assert.deepEqual([retired, await states()], [[first?.kid], [[published.kid, 'signing']]])
      const entries = service.db.read.selectFrom('auditEntries').select(['event', 'target', 'clientId'])
      const last = await entries.orderBy('sequence', 'desc').limit(2).execute()
      assert.deepEqual(
        last.map(({ event, target, clientId }) => [event, target, clientId]),
        [
          ['signing_key.retired', first?.kid, 'cli_test'],
          ['signing_key.published', published.kid, 'cli_test'],
        ],
      )
    })

    it('200 without a second rotation for a repeated Idempotency-Key', async () => {
      const key = { 'idempotency-key': 'rotate-once' }
      const first = await rotate({ immediately: true }, key)
      const again = await rotate({ immediately: true }, key)
      assert.equal(again.headers['idempotent-replayed'], 'true')
      assert.deepEqual([again.json(), (await keys())[0]?.kid], [first.json(), first.json().published.kid])
    })

    it('200 and a reported error if this process cannot reload the keys', async () => {
      failures.push(new Error('no connection'))
      const { published } = (await rotate({ immediately: true })).json()
      assert.equal((await keys())[0]?.kid, published.kid)
      assert.match(String(service.faults.pop()), /no connection/)
    })

    it('403 without the admin scope and 400 for a malformed body; neither rotates the keys', async () => {
      const before = await states()
      assert.equal((await rotate({}, {}, 'audit:read')).statusCode, 403)
      assert.equal((await rotate({ discard: 'yes' })).statusCode, 400)
      assert.deepEqual(await states(), before)
    })
  })

  it('GET /api/signing-keys also shows a rotation that was started on the command line', async () => {
    const sources = { db: service.db, sealer, now: () => service.clock.now, actor: operator }
    const { published } = await rotateOnRequest(sources, { immediately: true, discard: true })
    assert.deepEqual(await states(), [[published?.kid, 'signing']])
  })
})
