import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { appOn, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const rows = 150_000

/** Adds books whose titles do not contain an `x`. */
async function fill(db: Database): Promise<void> {
  const at = '2026-01-01T00:00:00.000Z'
  for (let from = 0; from < rows; from += 10_000) {
    await db.write((tx) =>
      sql`
        insert into books (revision, created_at, updated_at, title, title_key, author, author_key, genre, genre_key)
        with recursive n (n) as (select ${sql.lit(from + 1)} union all select n + 1 from n where n < ${sql.lit(from + 10_000)})
        select 1, ${at}, ${at}, 'Title ' || n, 'title ' || n, 'Author', 'author', 'Genre', 'genre' from n`.execute(tx),
    )
  }
}

forEachEngine((engine) => {
  describe(`reads of ${rows} rows`, () => {
    const service = appOn(engine, { prefixes: [''] })
    let filled: Promise<void> | undefined
    const ready = () => {
      filled ??= fill(service.db)
      return filled
    }
    const get = (url: string, as: string | null = 'a', prefer = '') =>
      service.app.inject({
        url,
        headers: {
          'x-forwarded-proto': 'https',
          ...(as !== null && { authorization: `Bearer ${token('', `cli_${as}`)}` }),
          ...(prefer && { prefer }),
        },
      })

    /** Sends health checks while a read is running; returns how many succeeded. */
    const answeredDuring = async (read: ReturnType<typeof get>) => {
      let ended = false
      const reading = read.finally(() => {
        ended = true
      })
      let answered = 0
      for (; !ended; answered++) {
        assert.equal((await get('/livez', null)).statusCode, 200)
        await turn()
      }
      assert.equal((await reading).statusCode, 200)
      return answered
    }

    for (const [what, url, prefer] of [
      ['a search without matches', '/books?q=xx', ''],
      ['several filters and a sort by another field', '/books?genre=genre&author=author&sort=-title', ''],
      ['an exact count of all rows', '/books?limit=1', 'count=exact'],
      ['an exact count with filters', '/books?limit=1&genre=genre&author=author', 'count=exact'],
      ['a range and a sort by other fields', '/books?limit=1&updatedAfter=2025-01-01&sort=-author,title', ''],
    ] as const) {
      const promise = engine.name === 'sqlite' ? 'do not block other requests' : '200'
      it(`${promise}: ${what}`, async () => {
        await ready()
        // If the read blocked this thread, at most two requests would be answered during it. It is repeated, because a
        // quick scan can end before this thread runs. Reads on PostgreSQL never block, but may end before any request
        // is answered.
        const enough = engine.name === 'sqlite' ? 6 : 0
        let answered = 0
        for (let round = 0; round < 10 && (round === 0 || answered < enough); round++) {
          answered = Math.max(answered, await answeredDuring(get(url, 'a', prefer)))
        }
        assert.ok(answered >= enough, `at most ${answered} requests were answered during a read`)
      })
    }

    it('503 with Retry-After for an account with too many scans; another account’s scan runs before they have all ended', async () => {
      await ready()
      // Returns the accounts in the order in which their scans ended.
      const overload = async (round: number): Promise<string[]> => {
        const order: string[] = []
        const scan = async (as: string, at: number) => {
          const answer = await get(`/books?q=x${round}.${at}&sort=-title`, as)
          if (answer.statusCode === 200) order.push(as)
          return answer
        }
        const many = Array.from({ length: 12 }, (_, at) => scan('greedy', at))
        const other = scan('other', 1)
        many.push(...Array.from({ length: 38 }, (_, at) => scan('greedy', 12 + at)))
        service.clock.now += 10_000
        assert.equal((await get('/readyz', null)).statusCode, 200)
        assert.equal((await other).statusCode, 200)
        const answers = await Promise.all(many)
        const refused = answers.filter(({ statusCode }) => statusCode === 503)
        assert.ok(refused.length >= 40, `${refused.length} were refused`)
        for (const { headers } of refused) assert.match(String(headers['retry-after']), /^\d+$/)
        assert.equal(order.length, 51 - refused.length)
        // Each rejected scan is also logged as an error.
        assert.equal(service.faults.splice(0).length, refused.length)
        return order
      }
      // In a queue without turns, the other account's scan would always be the last. It is repeated, because on a busy
      // machine all scans can end before this thread handles the other account's request.
      let order: string[] = []
      for (let round = 0; round < 10 && order.indexOf('other') >= order.lastIndexOf('greedy'); round++)
        order = await overload(round)
      assert.ok(order.indexOf('other') < order.lastIndexOf('greedy'), order.join())
    })

    it('200 for pages read from an index while five other accounts run scans', async () => {
      await ready()
      const scans = ['a', 'b', 'c', 'd', 'e'].map((as) => get(`/books?q=y${as}&sort=-title`, as))
      for (const url of ['/books?limit=5', '/books?genre=genre&limit=5', '/books?sort=-title&limit=5', '/books/1']) {
        assert.equal((await get(url, null)).statusCode, 200)
      }
      for (const scan of scans) assert.equal((await scan).statusCode, 200)
    })
  })
})
