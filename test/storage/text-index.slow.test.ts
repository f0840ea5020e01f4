import assert from 'node:assert/strict'
import { once } from 'node:events'
import { copyFileSync, existsSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import pg from 'pg'
import { Type } from 'typebox'
import { service } from '../../src/definition/service.ts'
import { Line } from '../../src/http/text-rules.ts'
import { collection } from '../../src/resources/collection.ts'
import { resourceRows } from '../../src/resources/resource-rows.ts'
import type { Database } from '../../src/storage/database.ts'
import { uuidSource } from '../../src/storage/ids.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { type OpenOptions, openDatabase } from '../../src/storage/open.ts'
import { ensureTextIndexes } from '../../src/storage/postgres/text-index.ts'
import { rowsOf } from '../../src/storage/rows/rows.ts'
import { trigramQuery } from '../../src/storage/text-index/text-index.ts'
import { onPostgres, onSqlite, type Place } from '../support/engines.ts'
import { faultProxy } from '../support/fault-proxy.ts'
import { eventually } from '../support/service.ts'
import { muchLater } from '../support/timers.ts'

const at = '2026-01-01T00:00:00.000Z'
const searched = { table: 'books', columns: ['title_key'] }
const asked = { account: 'a' }

const add = (db: Database, ...titles: string[]) =>
  db.write(async (tx) => {
    for (const title of titles) {
      const keys = { titleKey: title.toLowerCase(), authorKey: 'a' }
      const row = { title, author: 'A', ...keys, revision: 1, createdAt: at, updatedAt: at }
      await tx.insertInto('books').values(row).execute()
    }
  })
const rename = (db: Database, id: number, title: string) =>
  db.write((tx) =>
    tx
      .updateTable('books')
      .set({ title, titleKey: title.toLowerCase() })
      .where('id', '=', id as never)
      .execute(),
  )
/** Searches for books and returns their ids. */
const found = async (db: Database, value: string) => {
  const { page } = rowsOf(db, { table: 'books', fields: ['title'], folded: ['title'] })
  const order = [{ field: 'id', descending: false }]
  const query = { filters: [{ field: ['title'], op: 'contains' as const, value }], order, after: null }
  const rows = await page({ ...query, backwards: false, limit: 1_000 }, () => asked)
  return rows.map(({ id }) => id)
}

describe('trigramQuery', () => {
  it('returns each distinct trigram of code points once, with quotation marks escaped', () => {
    assert.equal(trigramQuery('abcd'), '"abc" AND "bcd"')
    assert.equal(trigramQuery('aaaaa'), '"aaa"')
    assert.equal(trigramQuery('𝒜"b'), '"𝒜""b"')
  })

  it('returns undefined for text of fewer than three characters, and only a sample of trigrams for long text', () => {
    assert.equal(trigramQuery('𝒜𝓑'), undefined)
    const long = trigramQuery(Array.from({ length: 300 }, (_, n) => String.fromCodePoint(0x4e00 + n)).join(''))
    assert.ok((long?.split(' AND ').length ?? 0) <= 24)
  })
})

onSqlite((engine) => {
  describe('the text index', () => {
    let place: Place
    let db: Database
    let path: string
    const errors: unknown[] = []
    const open = async (options: OpenOptions = {}) => {
      const opened = await openDatabase(place.url, {
        setTimer: muchLater,
        unindexed: { newRows: 3, changed: 6 },
        onError: (error) => errors.push(error),
        ...options,
      })
      await migrate(opened)
      return opened
    }
    beforeEach(async () => {
      place = await engine.place()
      path = place.url.replace('file:', '')
      db = await open()
    })
    afterEach(async () => {
      await db.close()
      await place.remove()
      assert.deepEqual(errors.splice(0), [])
    })
    const needles = ['Needle one', 'Hay', 'Needle two', 'More hay', 'Needles']
    /** Searches until the index returns candidates. */
    const indexed = async () => {
      while ((await db.textIndex.candidates(searched, 'needle', asked)) === undefined) await found(db, 'needle')
    }

    it('is not built for a small table', async () => {
      await add(db, 'Needle', 'Hay', 'Hay')
      assert.deepEqual(await found(db, 'needle'), [1])
      assert.equal(await db.textIndex.candidates(searched, 'needle', asked), undefined)
      assert.equal(existsSync(`${path}-search`), false)
      assert.equal((await sql`select 1 from search_indexes`.execute(db.read)).rows.length, 0)
    })

    it('finds rows once it is built, including rows added or changed later, but not deleted rows', async () => {
      await add(db, ...needles)
      await indexed()
      assert.deepEqual(await found(db, 'needle'), [1, 3, 5])
      await add(db, 'A needle')
      await rename(db, 2, 'Needled')
      await rename(db, 3, 'Gone')
      await db.write((tx) =>
        tx
          .deleteFrom('books')
          .where('id', '=', 1 as never)
          .execute(),
      )
      assert.notEqual(await db.textIndex.candidates(searched, 'needle', asked), undefined)
      assert.deepEqual(await found(db, 'needle'), [2, 5, 6])
    })

    it('is not used for text with fewer than three characters', async () => {
      await add(db, ...needles)
      await indexed()
      assert.equal(await db.textIndex.candidates(searched, 'ne', asked), undefined)
      assert.deepEqual(await found(db, 'ne'), [1, 3, 5])
    })

    it('finds rows with UUIDs, even after changes and a vacuum', async () => {
      const declared = { path: '/items', noun: 'item', ids: 'uuid', search: ['name'] } as const
      const items = collection({ ...declared, body: Type.Object({ name: Line(1, 40) }) })
      await migrate(db, { tables: service({ resources: [items] }).tables })
      const rows = resourceRows(db, items.declaration)
      const newUuid = uuidSource({ now: () => Date.parse(at), random: (size) => Buffer.alloc(size, 7) })
      const ids: string[] = []
      for (const name of needles) {
        const { row } = await db.write((tx) => rows.insert(tx, { id: newUuid(), name }, at))
        ids.push(String(row.id))
      }
      const query = { filters: [{ field: ['name'], op: 'contains' as const, value: 'needle' }], after: null }
      const order = [{ field: 'id', descending: false }]
      const names = async () =>
        (await rows.page({ ...query, order, backwards: false, limit: 100 }, () => asked)).map(({ name }) => name)
      const candidates = () =>
        db.textIndex.candidates({ table: 'resource_items', columns: ['name_key'] }, 'needle', asked)
      while ((await candidates()) === undefined) await names()
      assert.deepEqual(await names(), ['Needle one', 'Needle two', 'Needles'])
      const [one = '', two = '', three = ''] = ids
      await db.write((tx) => rows.remove(tx, one, {}))
      await db.write((tx) => rows.update(tx, two, { name: 'Needled' }, {}, at))
      await db.write((tx) => rows.update(tx, three, { name: 'Gone' }, {}, at))
      assert.deepEqual(await names(), ['Needled', 'Needles'])
      await db.close()
      const file = new DatabaseSync(path)
      file.exec('vacuum')
      file.close()
      db = await open()
      const reopened = resourceRows(db, items.declaration)
      assert.notEqual(await candidates(), undefined)
      const found = await reopened.page({ ...query, order, backwards: false, limit: 100 }, () => asked)
      assert.deepEqual(
        found.map(({ name }) => name),
        ['Needled', 'Needles'],
      )
    })

    it('is rebuilt if its file is missing', async () => {
      await add(db, ...needles)
      await indexed()
      await db.close()
      for (const end of ['', '-wal', '-shm']) rmSync(`${path}-search${end}`, { force: true })
      db = await open()
      assert.deepEqual(await found(db, 'needle'), [1, 3, 5])
      await indexed()
      assert.deepEqual(await found(db, 'needle'), [1, 3, 5])
    })

    it('is rebuilt after the database is restored from a copy', async () => {
      await add(db, ...needles)
      await indexed()
      await db.close()
      copyFileSync(path, `${path}-copy`)
      db = await open()
      for (let id = 1; id <= 5; id++) await rename(db, id, 'Other')
      await add(db, 'x1', 'x2', 'x3', 'x4', 'x5', 'x6')
      // Searches until the index has been updated and differs from the copy.
      for (let token = await tokenOf(db), now = token; now === token; now = await tokenOf(db)) await found(db, 'other')
      await db.close()
      copyFileSync(`${path}-copy`, path)
      db = await open()
      assert.deepEqual(await found(db, 'needle'), [1, 3, 5])
      await add(db, 'Needle again')
      await indexed()
      assert.deepEqual(await found(db, 'needle'), [1, 3, 5, 6])
    })

    it('is rebuilt after its table is recreated with ids starting from 1', async () => {
      await add(db, ...needles)
      await indexed()
      await db.close()
      db = await open()
      const { rows } = await sql<{ sql: string }>`select sql from sqlite_schema where name = 'books'`.execute(db.read)
      await db.write(async (tx) => {
        await sql`drop table books`.execute(tx)
        await sql.raw(rows[0]?.sql as string).execute(tx)
      })
      await add(db, 'Hay', 'Needle', 'Hay', 'Needle', 'Hay')
      assert.deepEqual(await found(db, 'needle'), [2, 4])
      await indexed()
      assert.deepEqual(await found(db, 'needle'), [2, 4])
    })

    it('is not rebuilt immediately after a failed build; the error is reported, and searches still find all rows', async () => {
      await add(db, ...needles)
      copyFileSync(new URL(import.meta.url).pathname, `${path}-search`)
      while (errors.length === 0) assert.deepEqual(await found(db, 'needle'), [1, 3, 5])
      assert.match(String(errors.splice(0)[0]), /not a database/)
      assert.deepEqual(await found(db, 'needle'), [1, 3, 5])
      assert.equal((await sql`select token from search_indexes`.execute(db.read)).rows.length, 1)
    })
  })
})

const tokenOf = async (db: Database) => {
  const { rows } = await sql<{ token: string }>`select token from search_indexes`.execute(db.read)
  return rows[0]?.token
}

onPostgres((engine) => {
  describe('the text index', () => {
    const books = { path: '/books', name: 'books', columns: [], search: ['title'] }
    const definitionOf = async (db: Database) => {
      // An index is valid only when its build is complete; stopping the build earlier would leave it invalid.
      const query = sql<{ indexdef: string }>`
        select pg_get_indexdef(indexrelid) as indexdef from pg_index
        where indexrelid = to_regclass('books_search') and indisvalid`
      return (await query.execute(db.read)).rows.map(({ indexdef }) => indexdef)
    }
    const ensured = async (db: Database, search: string[]) => {
      const errors: unknown[] = []
      const stop = ensureTextIndexes({ db, tables: [{ ...books, search }], onError: (error) => errors.push(error) })
      while ((await definitionOf(db)).length === 0 && errors.length === 0) await found(db, 'needle')
      await stop()
      return errors
    }

    it('is built in the background, finds rows by substring, and is rebuilt when the searched fields change', async () => {
      const db = await engine.database()
      try {
        await add(db, ...Array.from({ length: 200 }, (_, n) => `Hay ${n}`), 'One needle')
        assert.deepEqual(await ensured(db, ['title']), [])
        assert.match(String(await definitionOf(db)), /gin \(title_key (\w+\.)?gin_trgm_ops\)/)
        const plan = () =>
          db.write(async (tx) => {
            for (const way of ['seqscan', 'indexscan', 'indexonlyscan']) {
              await sql.raw(`set local enable_${way} = off`).execute(tx)
            }
            return sql`explain select id from books where title_key like '%needle%' escape '!'`.execute(tx)
          })
        assert.match(JSON.stringify((await plan()).rows), /Bitmap Index Scan on books_search/)
        assert.deepEqual(await found(db, 'NEEDLE'), [201])
        const stop = ensureTextIndexes({ db, tables: [{ ...books, search: ['title', 'author'] }], onError: () => {} })
        while (!/author_key/.test(String(await definitionOf(db)))) await found(db, 'needle')
        await stop()
      } finally {
        await db.close()
      }
    })

    it('stops building at shutdown, even before its connection is open', { timeout: 60_000 }, async () => {
      const sockets = new Set<Socket>()
      const silent = createServer((socket) => sockets.add(socket))
      await once(silent.listen(0, '127.0.0.1'), 'listening')
      const { port } = silent.address() as AddressInfo
      const db = await engine.database()
      try {
        const url = `postgres://127.0.0.1:${port}/plinth`
        const errors: unknown[] = []
        const onError = (error: unknown) => errors.push(error)
        const stop = ensureTextIndexes({ db: { ...db, url }, tables: [{ ...books, search: ['title'] }], onError })
        await once(silent, 'connection')
        await stop()
        assert.deepEqual(errors, [])
      } finally {
        for (const socket of sockets) socket.destroy()
        silent.close()
        await db.close()
      }
    })

    it('stops building at shutdown, even if the server no longer responds', { timeout: 60_000 }, async () => {
      const db = await engine.database()
      const proxy = await faultProxy(Number(new URL(db.url).port))
      const lock = new pg.Client({ connectionString: db.url })
      await lock.connect()
      try {
        await lock.query('begin; lock table books in access exclusive mode')
        const url = Object.assign(new URL(db.url), { host: `127.0.0.1:${proxy.port}` }).href
        const errors: unknown[] = []
        const onError = (error: unknown) => errors.push(error)
        const stop = ensureTextIndexes({ db: { ...db, url }, tables: [{ ...books, search: ['title'] }], onError })
        await eventually('the creation waits for the lock', async () => {
          const query = `select 1 from pg_locks where relation = 'books'::regclass and not granted`
          return (await lock.query(query)).rows.length > 0
        })
        proxy.set({ kind: 'silent' })
        await stop()
        assert.deepEqual(errors, [])
      } finally {
        await lock.end()
        await proxy.close()
        await db.close()
      }
    })

    it('requires an extension; without it, the migration fails with an error that contains the statement to install it', async () => {
      const { url, remove } = await engine.place()
      const admin = await openDatabase(url)
      await sql
        .raw(`do $$ begin create role plinth_plain login; exception when duplicate_object then null; end $$`)
        .execute(admin.read)
      await sql.raw('grant all on schema public to plinth_plain').execute(admin.read)
      await admin.close()
      const plain = await openDatabase(Object.assign(new URL(url), { username: 'plinth_plain' }).href)
      try {
        await assert.rejects(migrate(plain), /extension pg_trgm[\s\S]*create extension pg_trgm/)
      } finally {
        await plain.close()
        await remove()
      }
    })
  })
})
