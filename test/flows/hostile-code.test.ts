import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { definitionFolder } from '../support/definitions.ts'
import { type EngineUnderTest, forEachEngine } from '../support/engines.ts'
import { eventually, realService } from '../support/service.ts'

/** The text of a note selects how its hook or job fails. */
const definition = `
  import { collection, hooks, job, Line, service, Type } from 'plinth'
  const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40) }), filters: ['text'] })
  const input = Type.Object({})
  const loops = job('loops', { input, retries: 0, run: async (_, { count }) => {
    await count(notes)
    for (;;);
  } })
  const throws = job('throws', { input, retries: 0, run: () => { throw new Error('the reason') } })
  const created = hooks(notes, {
    created: async ({ text }, { count, enqueue }) => {
      if (text === 'reject') void Promise.reject(new Error('nobody awaits this'))
      if (text === 'job loops') enqueue(loops, {})
      if (text === 'job throws') enqueue(throws, {})
      await count(notes)
      if (text === 'loop') for (;;);
    },
  })
  export default service({ resources: [notes], code: { created, loops, throws } })`

/** Prepares a service with faulty code. Returns test helpers, and a `close` function that removes the service. */
async function faultyService(engine: EngineUnderTest, threads: number) {
  const place = await engine.place()
  const { write, remove } = definitionFolder()
  const definitionFile = write('service', definition)
  const env = { DATABASE_URL: place.url, PLINTH_DEFINITION: definitionFile, PLINTH_THREADS: String(threads) }
  const service = await realService(env)
  const lines = (message: string) =>
    service
      .output()
      .split('\n')
      .filter((line) => line.includes(`"msg":"${message}"`))
      .map((line) => JSON.parse(line))
  const post = (text: string) => service.call('POST', '/notes', { body: { text } }).then(({ status }) => status)
  const jobs = async (name: string) => (await service.call('GET', `/api/jobs?name=${name}`)).json()
  return {
    ...{ service, lines, post, jobs },
    close: async () => {
      await service.remove()
      remove()
      await place.remove()
    },
  }
}

forEachEngine((engine) => {
  for (const threads of [1, 2]) {
    describe(`a service with faulty code and PLINTH_THREADS=${threads}`, () => {
      let faulty: Awaited<ReturnType<typeof faultyService>>
      before(async () => {
        faulty = await faultyService(engine, threads)
        await faulty.service.start()
      })
      after(() => faulty?.close())

      it('201 and a log entry if a hook leaves a rejected promise unhandled; the service keeps running', async () => {
        assert.equal(await faulty.post('reject'), 201)
        const [unawaited] = await eventually('the rejection is in the log', async () => {
          const found = faulty.lines('background work failed')
          return found.length > 0 && found
        })
        assert.deepEqual([unawaited.what, unawaited.err.message], ['unawaited promise', 'nobody awaits this'])
        assert.equal(await faulty.post('next'), 201)
      })

      it('marks a throwing job as failed after its only attempt, and stores the error', async () => {
        assert.equal(await faulty.post('job throws'), 201)
        const [failed] = await eventually('the job has failed', async () => {
          const found = await faulty.jobs('throws')
          return found[0]?.status === 'failed' && found
        })
        assert.deepEqual([failed.attempts, failed.failures, failed.error], [1, 1, 'Error: the reason'])
      })

      // With one thread, only a restart stops an endless loop (docs/code.md).
      if (threads > 1) {
        it('rolls back a write whose hook loops forever, replaces the thread, and logs the hook’s name', async () => {
          const looping = faulty.post('loop').catch(() => 'closed')
          await eventually('the thread is replaced', async () => faulty.lines('thread replaced').length === 1)
          assert.equal(await looping, 'closed')
          assert.equal(faulty.lines('thread hangs')[0].code, 'created of /notes')
          assert.deepEqual((await faulty.service.call('GET', '/notes?text=loop')).json(), [])
        })

        it('replaces the thread of a job that loops forever, logs the job’s name, and can then cancel the job', async () => {
          assert.equal(await faulty.post('job loops'), 201)
          const before = faulty.lines('thread replaced').length
          await eventually(
            'the background thread is replaced',
            async () => faulty.lines('thread replaced').length > before,
          )
          const { code, role } = faulty.lines('thread hangs').at(-1)
          assert.deepEqual([code, role], ['job loops', 'background'])
          const [{ id }] = await faulty.jobs('loops')
          assert.equal((await faulty.service.call('POST', `/api/jobs/${id}/cancel`)).status, 200)
        })
      }

      it('201 for a write after the faults above', async () => {
        assert.equal(await faulty.post('last'), 201)
      })
    })
  }
})
