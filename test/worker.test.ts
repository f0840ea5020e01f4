import assert from 'node:assert/strict'
import { after, before, describe, it, mock } from 'node:test'
import { forEachEngine } from './support/engines.ts'
import { hooksOn } from './support/hooks.ts'
import { eventually } from './support/service.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

forEachEngine((engine) => {
  describe('cleanup by a node whose clock is 20 minutes ahead', () => {
    before(() => mock.timers.enable({ apis: ['setInterval'] }))
    after(() => mock.timers.reset())
    const service = hooksOn(engine)

    it('removes only rows that have expired by the database’s clock, keeps valid revocations, and reports counts', async () => {
      const { db } = service
      service.ahead.ms = 20 * minuteMs
      const at = (ms: number) => new Date(Date.now() + ms).toISOString()
      const record = {
        kind: 'ClientCredentials',
        payload: '{}',
        grantId: null,
        uid: null,
        userCode: null,
        userId: null,
      }
      const revoked = { ...record, consumedAt: at(0) }
      const counter = { count: 1, blockedUntil: null }
      const answer = { digest: '', sealed: '' }
      await db.write(async (tx) => {
        await tx
          .insertInto('authRecords')
          .values([
            { ...revoked, id: 'valid', expiresAt: at(14 * minuteMs) },
            { ...revoked, id: 'over', expiresAt: at(-hourMs) },
          ])
          .execute()
        await tx
          .insertInto('answers')
          .values([
            { ...answer, id: 'valid', createdAt: at(-24 * hourMs + 10 * minuteMs) },
            { ...answer, id: 'over', createdAt: at(-25 * hourMs) },
          ])
          .execute()
        await tx
          .insertInto('loginTries')
          .values([
            { ...counter, key: 'valid', endsAt: at(10 * minuteMs) },
            { ...counter, key: 'over', endsAt: at(-hourMs) },
          ])
          .execute()
        await tx
          .insertInto('limitWindows')
          .values([
            { key: 'valid', points: 1, expire: Date.now() + 10 * minuteMs },
            { key: 'over', points: 1, expire: Date.now() - hourMs },
          ])
          .execute()
        await tx.insertInto('quotaUses').values({ key: 'over', period: '2020-01', used: 1, granted: 0 }).execute()
      })
      mock.timers.tick(minuteMs)
      // A sweep round removes quota usage last.
      await eventually('a round has ended', async () => {
        return (await db.read.selectFrom('quotaUses').select('key').execute()).length === 0
      })
      const left = {
        marks: (await db.read.selectFrom('authRecords').select('id').execute()).map(({ id }) => id),
        answers: (await db.read.selectFrom('answers').select('id').execute()).map(({ id }) => id),
        tries: (await db.read.selectFrom('loginTries').select('key').execute()).map(({ key }) => key),
        windows: (await db.read.selectFrom('limitWindows').select('key').execute()).map(({ key }) => key),
      }
      assert.deepEqual(left, { marks: ['valid'], answers: ['valid'], tries: ['valid'], windows: ['valid'] })
      await eventually('the last sweep is reported', async () => service.swept.length === 5)
      assert.deepEqual(
        service.swept.map(({ what, count }) => [what, count]),
        [
          ['tokens and sessions', 1],
          ['login attempts', 1],
          ['stored responses', 1],
          ['rate-limit windows', 1],
          ['quota usage', 1],
        ],
      )
    })
  })
})
