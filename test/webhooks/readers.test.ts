import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { EventAccess } from '../../src/queue/events.ts'
import type { Queue } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import type { FanOutJob } from '../../src/webhooks/dispatch/readers.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, newOwner, outcomes, steps } from '../support/webhooks.ts'

const start = Date.parse('2026-03-01T12:00:00.000Z')
const minuteMs = 60_000
const ofEverybody = { type: 'note.created', audience: 'any' }

forEachEngine((engine) => {
  describe('access rules that fail', () => {
    let db: Database
    const clock = { now: start }
    const dispatchers = dispatching(engine, clock, (opened) => {
      db = opened
    })

    /** Returns rules that throw for one owner. */
    const failingFor = ({ ownerClient }: { ownerClient: string }): EventAccess => ({
      appliesTo: (type) => type.startsWith('note.'),
      judge: () => async (receiver) => {
        if (receiver.ownerClient === ownerClient) throw new Error('a mistake in a rule')
        return true
      },
    })

    async function twoOwners() {
      await db.write((tx) => tx.deleteFrom('webhooks').execute())
      const fixture = steps(db, dispatchers.queue)
      const [broken, sound] = [newOwner(), newOwner()]
      const { id: brokenId } = await fixture.subscribe(broken, 'https://broken.test/')
      const { id: soundId } = await fixture.subscribe(sound, 'https://sound.test/')
      const errors: unknown[] = []
      const retries: [job: FanOutJob, delayMs: number | undefined][] = []
      const enqueue: Queue['enqueue'] = async (_tx, name, payload, options) => {
        assert.equal(name, 'event.fan-out')
        retries.push([payload as FanOutJob, options?.delayMs])
      }
      const onError = (error: unknown) => errors.push(error)
      const access = failingFor(broken)
      const fan = (jobs: object[], rules = access) =>
        dispatchers.fan(batch(jobs), { access: rules, onError, queue: { enqueue } })
      return { fixture, broken, brokenId, sound, soundId, access, errors, retries, fan }
    }

    it('do not affect deliveries to other owners, are logged once per batch, and are evaluated again later', async () => {
      const { fixture, broken, brokenId, soundId, errors, retries, fan } = await twoOwners()
      const [first, second] = [await fixture.emit(newOwner(), ofEverybody), await fixture.emit(newOwner(), ofEverybody)]
      await fan([{ eventId: first.id }, { eventId: second.id }])
      const receiversOf = async (id: string) => (await fixture.deliveries(id)).map(({ webhookId }) => webhookId).sort()
      for (const { id } of [first, second]) assert.deepEqual(await receiversOf(id), [soundId])
      assert.deepEqual(errors.map(String), ['Error: a mistake in a rule'])
      const retry = (eventId: string) => [{ eventId, webhooks: [brokenId], failures: 1 }, minuteMs]
      // Compared as sets, because events created in the same millisecond are evaluated in random order.
      assert.deepEqual(new Set(retries), new Set([retry(first.id), retry(second.id)]))
      // This webhook is registered after the event, so it must not receive the event.
      await fixture.subscribe(broken, 'https://later.test/')
      const job = retries.map(([retried]) => retried).find(({ eventId }) => eventId === first.id)
      const mended: EventAccess = { appliesTo: () => true, judge: () => async () => true }
      await fan([job as FanOutJob], mended)
      assert.deepEqual(await receiversOf(first.id), [brokenId, soundId].sort())
      assert.equal(retries.length, 2)
    })

    it('are retried five times over about eleven hours; after that, the owner does not receive the event', async () => {
      const { fixture, soundId, retries, fan } = await twoOwners()
      const { id } = await fixture.emit(newOwner(), ofEverybody)
      let jobs: FanOutJob[] = [{ eventId: id }]
      while (jobs.length > 0) {
        const before = retries.length
        await fan(jobs)
        jobs = retries.slice(before).map(([job]) => job)
      }
      assert.deepEqual(
        retries.map(([, delayMs]) => Number(delayMs) / minuteMs),
        [1, 5, 30, 120, 480],
      )
      assert.deepEqual(
        (await fixture.deliveries(id)).map(({ webhookId }) => webhookId),
        [soundId],
      )
    })

    it('postpone a waiting delivery, but not deliveries to other owners', async () => {
      const { fixture, brokenId, soundId, access } = await twoOwners()
      const { id } = await fixture.emit(newOwner(), ofEverybody)
      await dispatchers.fan(batch([{ eventId: id }]))
      const errors: unknown[] = []
      const sent: string[] = []
      const onError = (error: unknown) => errors.push(error)
      const options = { access, onError }
      const dispatch = await dispatchers.start(async ({ url }) => {
        sent.push(url)
        return outcomes.delivered
      }, options)
      await dispatch.settled()
      await dispatch.stop(1_000)
      const statuses = (await fixture.deliveries(id)).map(({ webhookId, status, attempts }) => [
        webhookId,
        status,
        attempts,
      ])
      assert.deepEqual(
        new Map(statuses.map(([webhookId, ...rest]) => [webhookId, rest])),
        new Map<unknown, unknown>([
          [brokenId, ['pending', 0]],
          [soundId, ['delivered', 1]],
        ]),
      )
      assert.deepEqual(sent, ['https://sound.test/'])
      assert.deepEqual(errors.map(String), ['Error: a mistake in a rule'])
    })
  })
})
