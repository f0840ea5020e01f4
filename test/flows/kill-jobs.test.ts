import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { migrate } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { definitionFolder } from '../support/definitions.ts'
import { forEachEngine } from '../support/engines.ts'
import { seed, sequence } from '../support/kill.ts'
import { eventually, realService } from '../support/service.ts'

/** How often the service is killed on each engine. */
const kills = Number(process.env.KILLS ?? 5)

/**
 * Creating a note inserts two `halves` rows and enqueues two jobs, all in one transaction. The action `double` inserts
 * two more `halves` rows. Each job inserts a mark with the id and text of its note.
 */
const definition = `
  import { action, collection, hooks, job, Line, schedule, service, Type } from 'plinth'
  const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40) }), filters: ['text'] })
  const marks = collection({ path: '/marks', noun: 'mark', body: Type.Object({ text: Line(1, 40) }), filters: ['text'] })
  const halves = collection({ path: '/halves', noun: 'half', body: Type.Object({ noteId: Type.Integer() }), filters: ['noteId'] })
  const copy = job('note.copy', {
    input: Type.Object({ id: Type.Integer() }),
    run: async ({ id }, { find, insert }) => {
      const note = await find(notes, id)
      await new Promise((resolve) => setTimeout(resolve, id % 5 * 20))
      await insert(marks, { text: String(id) + ' ' + note.text })
    },
  })
  const added = hooks(notes, {
    created: async ({ id, text }, { enqueue, insert }) => {
      await insert(halves, { noteId: id })
      if (text === 'refused') throw new Error('refused')
      await insert(halves, { noteId: id })
      enqueue(copy, { id })
      enqueue(copy, { id }, { after: 500, key: 'later-' + id })
    },
  })
  const double = action(notes, 'double', {
    run: async ({ id, text }, _, { update, insert }) => {
      await insert(halves, { noteId: id })
      await update(notes, id, { text: text + '!' })
      await insert(halves, { noteId: id })
    },
  })
  const minutely = schedule('minutely', '* * * * *', async ({ insert }) => void (await insert(marks, { text: 'tick' })))
  export default service({ resources: [notes, marks, halves], code: { copy, added, double, minutely } })`

forEachEngine((engine) => {
  describe(`hooks, actions and jobs when the service is killed ${kills} times (seed ${seed})`, () => {
    it('run for every accepted request, jobs at least once; no hook or action is applied partially', {
      timeout: 120_000 + kills * 30_000,
    }, async () => {
      const place = await engine.place()
      const db = await openDatabase(place.url)
      await migrate(db)
      const { write, remove } = definitionFolder()
      const service = await realService({ DATABASE_URL: place.url, PLINTH_DEFINITION: write('service', definition) })
      const random = sequence(seed)
      const texts = new Map<number, string>()
      const doubled = new Set<number>()
      try {
        for (let life = 0; life < kills; life++) {
          await service.start()
          assert.equal((await service.call('POST', '/notes', { body: { text: 'refused' } })).status, 500)
          const posts = Array.from({ length: 10 }, async (_, n) => {
            const text = `note ${n}`
            const response = await service.call('POST', '/notes', { body: { text } })
            if (response.status !== 201) return
            const { id } = response.json()
            texts.set(id, text)
            const action = await service.call('POST', `/notes/${id}/double`)
            if (action.status === 200) doubled.add(id)
          })
          // A request that the kill interrupts has no response, so it does not count as accepted.
          const cutOff = Promise.all(posts).catch(() => {})
          if (life % 2 === 0) await cutOff
          await pause(random() * 300)
          await service.kill('SIGKILL')
          await cutOff
        }
        await service.start()
        const unfinished = async () =>
          db.read
            .selectFrom('declaredJobs')
            .select('id')
            .where('name', '=', 'note.copy')
            .where('status', 'in', ['waiting', 'running'])
            .execute()
        await eventually('all jobs have ended', async () => (await unfinished()).length === 0, 120_000)
        const rows = await db.read.selectFrom('declaredJobs').selectAll().where('name', '=', 'note.copy').execute()
        assert.deepEqual([...new Set(rows.map(({ status }) => status))], ['completed'])
        const ids = rows.map(({ input }) => (JSON.parse(input) as { id: number }).id)
        assert.ok(texts.size >= 10, `only ${texts.size} requests were accepted`)
        for (const id of texts.keys()) assert.equal(ids.filter((one) => one === id).length, 2, `note ${id}`)
        for (const [id, text] of texts) {
          const copies = await Promise.all(
            [text, `${text}!`].map((one) => service.call('GET', `/marks?text=${encodeURIComponent(`${id} ${one}`)}`)),
          )
          assert.ok(copies.flatMap((one) => one.json()).length >= 1, `note ${id} was not copied`)
          const halves = (await service.call('GET', `/halves?noteId=${id}`)).json().length
          const isDoubled = (await service.call('GET', `/notes/${id}`)).json().text === `${text}!`
          assert.equal(halves, isDoubled ? 4 : 2, `note ${id} has ${halves} halves`)
          assert.ok(isDoubled || !doubled.has(id), `note ${id} lost an accepted action`)
        }
        const all = await db.read
          .withoutPlugins()
          .selectFrom('resource_halves' as never)
          .selectAll()
          .execute()
        const left = Map.groupBy(all as { note_id: number }[], ({ note_id }) => note_id)
        for (const [id, halves] of left) assert.equal(halves.length % 2, 0, `note ${id} has ${halves.length} halves`)
        const ticks = await db.read
          .selectFrom('declaredJobs')
          .select('scheduledFor')
          .where('name', '=', 'minutely')
          .execute()
        assert.equal(new Set(ticks.map(({ scheduledFor }) => scheduledFor)).size, ticks.length)
      } finally {
        await service.remove()
        remove()
        await db.close()
        await place.remove()
      }
    })
  })
})
