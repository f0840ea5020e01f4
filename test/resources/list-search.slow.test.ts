import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { sql } from 'kysely'
import { Type } from 'typebox'
import { service as define } from '../../src/definition/service.ts'
import { Line } from '../../src/http/text-rules.ts'
import { collection } from '../../src/resources/collection.ts'
import { Text, Title } from '../../src/resources/field-types.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { caseFold } from '../../src/storage/rows/page-query.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { muchLater } from '../support/timers.ts'

interface Note {
  id: number
  title: string
  text?: string
}

const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ title: Title, text: Type.Optional(Text()), kind: Type.Optional(Line(1, 20)) }),
  filters: ['kind'],
  search: ['title', 'text'],
  sorts: ['title'],
})
const definition = define({ resources: [notes] })
const table = 'resource_notes'
const scopes = 'notes:read notes:write'

const titles = [
  'Café au lait',
  'CAFÉ',
  'cafe\u0301',
  '100%_off',
  'a"b\'c',
  'ﬁne print',
  '𝒜𝓑𝓒 letters',
  'Straße',
  'İstanbul',
  'ab',
  '日本語の本',
]
const texts = ['Ann Bee', 'bEE', "O'Neil", 'x_y', '%', 'Ω-Team', undefined, 'two\nlines']
const wanted = [
  'caf',
  'CAFÉ',
  'afé',
  'é',
  'ab',
  'a',
  'bee',
  '%',
  '_',
  '0%_',
  '100%_off',
  '"b\'',
  'ﬁne',
  'fine p',
  'abc',
  '𝒜',
  'ass',
  'SS',
  'istan',
  'i\u0307s',
  '本語の',
  'zzz',
  "o'neil",
  '!',
]

const step = fc.oneof(
  fc.record({
    kind: fc.constant('create' as const),
    title: fc.constantFrom(...titles),
    text: fc.constantFrom(...texts),
  }),
  fc.record({
    kind: fc.constant('change' as const),
    at: fc.nat(30),
    change: fc.oneof(
      fc.record({ title: fc.constantFrom(...titles) }),
      fc.record({ text: fc.constantFrom(null, ...texts.filter((text) => text !== undefined)) }),
    ),
  }),
  fc.record({ kind: fc.constant('remove' as const), at: fc.nat(30) }),
  fc.record({ kind: fc.constant('search' as const), text: fc.constantFrom(...wanted) }),
)

forEachEngine((engine) => {
  describe('text search with q', () => {
    let placed: Database
    let db: Database
    let service: TestApp
    const matched: string[] = []
    // Low thresholds, so that searches update the index while rows are written.
    const unindexed = { newRows: 3, changed: 6 }
    const errors: unknown[] = []
    before(async () => {
      placed = await engine.database()
      const opened = await openDatabase(placed.url, {
        setTimer: muchLater,
        unindexed,
        onError: (error) => errors.push(error),
      })
      const scan: Database['scan'] = (query, requester) => {
        matched.push(query.compile().sql)
        return opened.scan(query, requester)
      }
      db = { ...opened, scan }
      await migrate(db, { tables: definition.tables })
      service = await testApp(db, { prefixes: [''], definition })
    })
    after(async () => {
      await service.app.close()
      await db.close()
      await placed.close()
      assert.deepEqual(errors, [])
    })

    const send = async (method: 'POST' | 'PATCH' | 'DELETE', url: string, payload?: object) => {
      const answer = await service.send({ method, url, scopes, ...(payload && { payload }) })
      assert.ok(answer.statusCode < 300, `${method} ${url} ${answer.body}`)
      return answer.body === '' ? undefined : (answer.json() as Note)
    }
    const search = async (text: string, query = '') => {
      const found: Note[] = []
      for (let url: string | undefined = `/notes?limit=7&q=${encodeURIComponent(text)}${query}`; url; ) {
        const answer: Awaited<ReturnType<TestApp['send']>> = await service.send({ url, scopes })
        assert.equal(answer.statusCode, 200, answer.body)
        found.push(...answer.json())
        url = /<([^>]+)>; rel="next"/.exec(String(answer.headers.link))?.[1]
      }
      return found
    }
    const holds = ({ title, text: more = '' }: Note, text: string) =>
      [title, more].some((field) => caseFold(field).includes(caseFold(text)))
    const usesIndex = (text: string) => / match /.test(text)
    /** Returns whether a search starts no update of the index, during which searches do not use it. */
    const isCaughtUp = async () => {
      const { rows } = await sql<{ newRows: number; changed: number }>`
        select (select count(*) from search_changes) as changed, (select max(id) from ${sql.table(table)}) -
          coalesce((select indexed_to from search_indexes where name = ${table}), 0) as "newRows"`.execute(db.read)
      const { newRows, changed } = rows[0] ?? { newRows: 0, changed: 0 }
      return Number(newRows) <= unindexed.newRows && Number(changed) <= unindexed.changed
    }

    it('200 with exactly the rows that contain the text, after any sequence of writes', async () => {
      const there: Note[] = []
      const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
        for (const taken of steps) {
          if (taken.kind === 'create')
            there.push((await send('POST', '/notes', { title: taken.title, text: taken.text })) as Note)
          else if (taken.kind === 'search') {
            const expected = there.filter((book) => holds(book, taken.text)).map(({ id }) => id)
            assert.deepEqual(
              (await search(taken.text)).map(({ id }) => id),
              expected,
              taken.text,
            )
          } else if (there.length > 0) {
            const at = taken.at % there.length
            const { id } = there[at] as Note
            if (taken.kind === 'remove') await send('DELETE', `/notes/${there.splice(at, 1)[0]?.id}`)
            else there[at] = (await send('PATCH', `/notes/${id}`, taken.change)) as Note
          }
        }
      })
      await fc.assert(property, {
        numRuns: 40,
        endOnFailure: true,
        ...(process.env.SEED && { seed: Number(process.env.SEED) }),
      })
    })

    it('200 from the text index once it is up to date, also with filters, sorts, pages and counts', async () => {
      const there = await search('')
      for (let count = 0; count < 12; count++) {
        const note = { title: `Needle ${count % 4}`, text: `Hay ${count}`, kind: count % 2 === 1 ? 'odd' : 'even' }
        there.push((await send('POST', '/notes', note)) as Note)
      }
      // The thread commits the index after its progress is stored. Until then, searches do not use the index.
      const isIndexed = async () => (await isCaughtUp()) && matched.some(usesIndex)
      for (let n = 0; engine.name === 'sqlite' && !(await isIndexed()); n++) {
        matched.length = 0
        await search(`nothing ${n}`)
      }
      matched.length = 0
      const expected = there.filter((note) => holds(note, 'needle'))
      assert.deepEqual(await search('NEEDLE'), expected)
      const byTitle = expected.toSorted((one, other) => (one.title < other.title ? 1 : -1) || other.id - one.id)
      const titlesOf = (found: Note[]) => found.map(({ title }) => title)
      assert.deepEqual(titlesOf(await search('needle', '&sort=-title')), titlesOf(byTitle))
      assert.equal((await search('needle', '&kind=ODD')).length, 6)
      const headers = { prefer: 'count=exact' }
      const counted = await service.send({ url: '/notes?q=needle&kind=even', scopes, headers })
      assert.equal(counted.headers['x-total-count'], '6')
      if (engine.name === 'sqlite') assert.ok(matched.filter(usesIndex).length >= 6)
    })
  })
})
