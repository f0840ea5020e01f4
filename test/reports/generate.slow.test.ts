import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { folderResults } from '../../src/files/folder.ts'
import { type ResultStore, ResultsUnavailable } from '../../src/files/store.ts'
import { Problem } from '../../src/http/problems/problem.ts'
import { openQueue } from '../../src/queue/open.ts'
import { type ClaimedJob, LeaseLost, type Queue, Stopping, type Work } from '../../src/queue/queue.ts'
import { cancel, deleteTask } from '../../src/reports/cancel-and-delete.ts'
import { formats } from '../../src/reports/formats/formats.ts'
import { type GenerateOptions, generate } from '../../src/reports/generate/generate.ts'
import { type Produce, reportThreads } from '../../src/reports/generate/report-threads.ts'
import { type TableReport, tableReport } from '../../src/reports/generate/table-report.ts'
import type { ReportKind } from '../../src/reports/report-types.ts'
import { createTask } from '../../src/reports/tasks.ts'
import type { Database, Queryable } from '../../src/storage/database.ts'
import type { Snapshot } from '../../src/storage/snapshots/snapshot.ts'
import type { Task } from '../../src/storage/tables/tables.ts'
import { forEachEngine } from '../support/engines.ts'
import { numberPages, numbersKind, produceHere } from '../support/reports.ts'
import { eventually } from '../support/service.ts'
import { until } from '../support/timers.ts'

const owner = { clientId: 'cli_a', subject: 'cli_a', scopes: new Set<string>() }
const start = Date.parse('2026-03-01T12:00:00.000Z')
const iso = (ms: number) => new Date(ms).toISOString()
const products = 4_100

/** A report's type and rows; without rows, the report reads the database. */
interface TestReport {
  kind: ReportKind
  rows?: Snapshot
}

/** Returns a report with numbered rows in pages of ten; `before` is called before each page. */
const numbers = (pages: number, before?: (page: number) => unknown): TestReport => ({
  kind: numbersKind,
  rows: numberPages(pages, before),
})

const numbersCsv = (rows: number) => `n\r\n${Array.from({ length: rows }, (_, n) => `${n}\r\n`).join('')}`

async function addProducts(db: Database): Promise<void> {
  const rows = Array.from({ length: products }, (_, n) => ({
    ...{ name: `Product ${n}`, nameKey: `product ${n}`, price: n / 4, revision: 1 },
    ...{ createdAt: iso(start + n), updatedAt: iso(start + n) },
  }))
  for (let at = 0; at < rows.length; at += 1_000) {
    await db.write((tx) =>
      tx
        .insertInto('products')
        .values(rows.slice(at, at + 1_000))
        .execute(),
    )
  }
}

forEachEngine((engine) => {
  let db: Database
  let folder: string
  let results: ResultStore
  let clock: number
  let errors: unknown[]

  before(async () => {
    db = await engine.database()
    await addProducts(db)
  })
  after(() => db.close())
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plinth-reports-'))
    results = folderResults(folder)
    clock = start
    errors = []
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  /** A queue that accepts jobs and never runs them. */
  const noQueue: Queue = { enqueue: async () => {}, work: () => {}, stop: async () => {} }

  const tableOf = (name: string, table: string, columns: TableReport['columns']): TestReport => ({
    kind: tableReport({ name, scope: null, table, columns }),
  })

  const productsReport = () =>
    tableOf('products', 'products', [
      { name: 'id', type: 'integer' },
      { name: 'name', type: 'string' },
      { name: 'price', type: 'number' },
      { name: 'createdAt', type: 'instant' },
    ])

  const options = ({ kind, rows }: TestReport, changes: Partial<GenerateOptions> = {}): GenerateOptions => ({
    ...{ db, queue: noQueue, results, kinds: [kind], now: () => clock, random: randomBytes, resultSeconds: 604_800 },
    produce: produceHere(results, rows ?? db.url),
    onError: (error) => errors.push(error),
    ...changes,
  })

  async function add(reportType: string, format = 'csv', queue = noQueue): Promise<string> {
    const id = `tsk_${randomBytes(16).toString('base64url')}`
    const task = { id, reportType, format, webhookUrl: 'https://example.test/hook', versionPrefix: '/v1' }
    await db.write((tx) => createTask(tx, queue, task, owner, iso(clock)))
    return id
  }

  /** Creates a job as a worker receives it; `held` returns whether the job's lease is still held. */
  function jobOf(taskId: string, attempt = 1, held: () => boolean = () => true) {
    const abort = new AbortController()
    const job = { payload: { taskId }, attempt, signal: abort.signal, finished: 0 }
    const finish = async (_tx: Queryable) => {
      if (!held()) throw new LeaseLost()
      job.finished += 1
    }
    return Object.assign(job, { abort, finish }) satisfies ClaimedJob
  }

  const read = (id: string): Promise<Task> =>
    db.read.selectFrom('tasks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const eventsOf = async (id: string) =>
    (await db.read.selectFrom('events').selectAll().execute()).filter(({ body }) => body.includes(id))
  const fileOf = (task: Task) => readFileSync(join(folder, task.resultKey as string))

  describe('the report.generate job', () => {
    it('writes the whole file, completes the task and records the event', async () => {
      const id = await add('products')
      const job = jobOf(id)
      clock += 5_000
      await generate(options(productsReport()))(job)
      const task = await read(id)
      const file = fileOf(task)
      const lines = file.toString().split('\r\n')
      assert.equal(lines[0], 'id,name,price,createdAt')
      assert.equal(lines.length, products + 2)
      assert.match(
        lines[products] as string,
        new RegExp(`^\\d+,Product ${products - 1},1024.75,${iso(start + products - 1)}$`),
      )
      const sha256 = createHash('sha256').update(file).digest('base64')
      assert.deepEqual(
        { ...task, createdAt: task.createdAt, id },
        {
          ...{ id, ownerClient: 'cli_a', ownerSubject: 'cli_a', reportType: 'products', format: 'csv' },
          ...{ parameters: null, webhookUrl: 'https://example.test/hook', status: 'completed', progress: 100 },
          ...{ attempts: 1, rowCount: products, sizeBytes: file.length, sha256, resultKey: `${id}-1` },
          ...{ errorCode: null, errorMessage: null, versionPrefix: '/v1', createdAt: iso(start) },
          ...{ revision: 3, sharesSecond: 1 },
          ...{ retryOf: null, asAdmin: 0, scopes: null, turn: task.turn },
          ...{
            updatedAt: iso(clock),
            startedAt: iso(clock),
            completedAt: iso(clock),
            expiresAt: iso(clock + 604_800_000),
          },
        },
      )
      const [event, ...more] = await eventsOf(id)
      assert.deepEqual(more, [])
      assert.deepEqual(
        { ...event, id: event?.id.slice(0, 4) },
        {
          ...{ id: 'msg_', type: 'report.completed', ownerClient: 'cli_a', ownerSubject: 'cli_a' },
          body: `{"taskId":"${id}","status":"completed","resultUrl":"/v1/api/reports/${id}/download"}`,
          ...{
            callbackUrl: 'https://example.test/hook',
            audience: null,
            exceptWebhook: null,
            facts: null,
            trace: null,
            createdAt: iso(clock),
          },
        },
      )
      assert.equal(job.finished, 1)
      assert.deepEqual(readdirSync(folder), [`${id}-1`])
    })

    it('writes JSON, and paginates by an id that is not among the columns', async () => {
      const id = await add('prices', 'json')
      await generate(options(tableOf('prices', 'products', [{ name: 'price', type: 'number' }])))(jobOf(id))
      const rows = JSON.parse(fileOf(await read(id)).toString())
      assert.equal(rows.length, products)
      assert.deepEqual(rows[4], { price: 1 })
    })

    it('generates a report from an empty table', async () => {
      const id = await add('books')
      await generate(options(tableOf('books', 'books', [{ name: 'title', type: 'string' }])))(jobOf(id))
      const task = await read(id)
      assert.deepEqual([task.status, task.rowCount, fileOf(task).toString()], ['completed', 0, 'title\r\n'])
    })

    it('updates the progress at most once a second; it never decreases, and stays below 100 until the end', async () => {
      const id = await add('numbers')
      const seen: number[] = []
      const kind = numbers(40, async () => {
        clock += 300
        seen.push((await read(id)).progress)
      })
      await generate(options(kind))(jobOf(id))
      assert.deepEqual(
        seen,
        seen.toSorted((a, b) => a - b),
      )
      assert.deepEqual([...new Set(seen)], [0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
      const task = await read(id)
      assert.equal(task.progress, 100)
      // Three revisions for creation, start and completion, and ten for the progress updates.
      assert.equal(task.revision, 3 + 10)
    })

    it('keeps an earlier attempt’s progress until the current attempt exceeds it', async () => {
      const id = await add('numbers')
      const failing = numbers(10, (page) => {
        clock += 1_000
        if (page === 8) throw new Error('disk on fire')
      })
      await assert.rejects(generate(options(failing))(jobOf(id)), /disk on fire/)
      const first = await read(id)
      assert.deepEqual([first.status, first.progress, first.attempts], ['in_progress', 80, 1])
      const seen: number[] = []
      const slow = numbers(10, async () => {
        clock += 1_000
        seen.push((await read(id)).progress)
      })
      await generate(options(slow))(jobOf(id, 2))
      assert.deepEqual(seen, [80, 80, 80, 80, 80, 80, 80, 80, 80, 90])
      const task = await read(id)
      assert.deepEqual([task.attempts, task.startedAt], [2, iso(start)])
      assert.equal(fileOf(task).toString(), numbersCsv(100))
    })
  })

  describe('a failing report', () => {
    const broken = () =>
      numbers(3, (page) => {
        if (page === 2) throw new Error('select * from secrets: /var/lib')
      })

    it('is retried twice, and fails on the third attempt without revealing internals', async () => {
      const id = await add('numbers')
      for (const attempt of [1, 2]) {
        const job = jobOf(id, attempt)
        await assert.rejects(generate(options(broken()))(job), /secrets/)
        const task = await read(id)
        assert.deepEqual([task.status, task.attempts, job.finished], ['in_progress', attempt, 0])
      }
      assert.deepEqual(errors, [])
      const last = jobOf(id, 3)
      clock += 1_000
      await generate(options(broken()))(last)
      const task = await read(id)
      assert.deepEqual([task.status, task.attempts, task.completedAt], ['failed', 3, iso(clock)])
      assert.deepEqual([task.errorCode, task.errorMessage], ['INTERNAL_ERROR', 'The report could not be generated'])
      assert.deepEqual([task.resultKey, task.expiresAt], [null, null])
      const found = await eventsOf(id)
      assert.deepEqual(
        found.map(({ type, body, callbackUrl }) => [type, body, callbackUrl]),
        [['report.failed', `{"taskId":"${id}","status":"failed"}`, 'https://example.test/hook']],
      )
      assert.equal(last.finished, 1)
      assert.match(String(errors), /secrets/)
      assert.deepEqual(readdirSync(folder), [])
    })

    it('fails at once with the code and message of a Problem', async () => {
      const id = await add('numbers')
      const kind = numbers(1, () => {
        throw new Problem('VALIDATION_ERROR', 'The period is empty')
      })
      await generate(options(kind))(jobOf(id))
      const task = await read(id)
      assert.deepEqual([task.status, task.attempts], ['failed', 1])
      assert.deepEqual([task.errorCode, task.errorMessage], ['VALIDATION_ERROR', 'The period is empty'])
    })

    it('fails at once if its type or format is no longer offered', async () => {
      for (const id of [await add('retired'), await add('numbers', 'papyrus')]) {
        await generate(options(numbers(1)))(jobOf(id))
        const { status, errorMessage } = await read(id)
        assert.deepEqual([status, errorMessage], ['failed', 'The report type or format is no longer offered'])
      }
    })

    it('fails, and leaves no file, once its time limit has passed', async () => {
      const id = await add('numbers')
      const resume = Promise.withResolvers<void>()
      const stuck = numbers(10, (page) => page === 2 && resume.promise)
      await generate(options(stuck, { limitMs: 10 }))(jobOf(id))
      resume.resolve()
      const { status, errorMessage } = await read(id)
      assert.deepEqual([status, errorMessage], ['failed', 'The report took longer than 15 minutes'])
      assert.deepEqual(readdirSync(folder), [])
    })

    it('fails after 15 minutes by default', { timeout: 60_000 }, async (t) => {
      const id = await add('numbers')
      const resume = Promise.withResolvers<void>()
      let isStuck = false
      const stuck = numbers(10, (page) => {
        isStuck = page === 2
        return isStuck && resume.promise
      })
      t.mock.timers.enable({ apis: ['setTimeout'] })
      const job = jobOf(id)
      const generated = generate(options(stuck))(job)
      await until(() => isStuck)
      t.mock.timers.tick(15 * 60_000 - 1)
      await nextTurn()
      assert.deepEqual([(await read(id)).status, job.finished], ['in_progress', 0])
      t.mock.timers.tick(1)
      await generated
      resume.resolve()
      const { status, errorMessage } = await read(id)
      assert.deepEqual([status, errorMessage], ['failed', 'The report took longer than 15 minutes'])
    })

    it('stays in progress, even after its third attempt, while the database is unavailable', async () => {
      const id = await add('numbers')
      const unavailable = () =>
        Object.assign(new Error('the database is down'), engine.name === 'sqlite' ? { errcode: 5 } : { code: '57P01' })
      const down = numbers(3, (page) => {
        if (page === 2) throw unavailable()
      })
      for (const attempt of [1, 2, 3, 4, 5]) {
        await assert.rejects(generate(options(down))(jobOf(id, attempt)), /the database is down/)
      }
      assert.deepEqual([(await read(id)).status, errors], ['in_progress', []])
      await generate(options(numbers(3)))(jobOf(id, 6))
      const { status, attempts } = await read(id)
      assert.deepEqual([status, attempts], ['completed', 6])
    })

    it('fails if the process died in all six attempts', async () => {
      const id = await add('numbers')
      await db.write((tx) =>
        tx.updateTable('tasks').set({ status: 'in_progress', attempts: 6 }).where('id', '=', id).execute(),
      )
      writeFileSync(join(folder, `${id}-2`), 'crashed before its commit')
      const job = jobOf(id, 4)
      await generate(options(numbers(1)))(job)
      const task = await read(id)
      assert.deepEqual([task.status, task.attempts, job.finished], ['failed', 6, 1])
      assert.deepEqual(readdirSync(folder), [])
    })
  })

  describe('the report.generate job with a result store that fails', () => {
    /** Returns a store that records the keys passed to `remove`, and fails while `isAway` is true. */
    const failing = () => {
      const state = { isAway: true, removed: [] as string[] }
      const away = async () => {
        if (state.isAway) throw new ResultsUnavailable('the store is away')
      }
      const store: ResultStore = {
        ...results,
        probe: away,
        remove: async (key) => {
          state.removed.push(key)
          await away()
        },
      }
      return { state, store }
    }

    it('generates the report again only once the store responds, without using up attempts', async () => {
      const id = await add('numbers')
      const { state, store } = failing()
      let produced = 0
      const report = numbers(1, () => {
        produced += 1
        if (state.isAway) throw new ResultsUnavailable('the store is away')
      })
      for (let claim = 1; claim <= 10; claim++) {
        await assert.rejects(generate(options(report, { results: store }))(jobOf(id, claim)), ResultsUnavailable)
      }
      assert.equal(produced, 1)
      state.isAway = false
      await generate(options(report, { results: store }))(jobOf(id, 11))
      const task = await read(id)
      assert.deepEqual([task.status, task.attempts, task.resultKey, produced], ['completed', 1, `${id}-11`, 2])
    })

    it('removes only the results of the six previous claims, and stops at the first that cannot be removed', async () => {
      const [first, second] = [await add('numbers'), await add('numbers')]
      const { state, store } = failing()
      state.isAway = false
      await generate(options(numbers(1), { results: store }))(jobOf(first, 1_000))
      assert.deepEqual(
        state.removed,
        [999, 998, 997, 996, 995, 994].map((claim) => `${first}-${claim}`),
      )
      const ending = numbers(1, () => {
        state.removed = []
        state.isAway = true
      })
      await generate(options(ending, { results: store }))(jobOf(second, 1_000))
      assert.deepEqual([(await read(second)).status, state.removed], ['completed', [`${second}-999`]])
      assert.deepEqual(errors.map(String), ['ResultsUnavailable: the store is away'])
    })
  })

  describe('an interrupted worker', () => {
    it('does not use up an attempt when the service stops', async () => {
      const id = await add('numbers')
      const job = jobOf(id)
      const kind = numbers(5, (page) => page === 2 && job.abort.abort(new Stopping()))
      await assert.rejects(generate(options(kind))(job), Stopping)
      const task = await read(id)
      assert.deepEqual([task.status, task.attempts, job.finished], ['in_progress', 0, 0])
      assert.deepEqual(readdirSync(folder), [])
      await generate(options(numbers(5)))(jobOf(id, 2))
      const done = await read(id)
      assert.deepEqual([done.status, done.attempts, done.resultKey], ['completed', 1, `${id}-2`])
    })

    it('does not change the attempt count of the worker that took over', async () => {
      const id = await add('numbers')
      const stale = jobOf(id)
      const kind = numbers(3, async (page) => {
        if (page !== 1) return
        await assert.rejects(
          generate(options(numbers(1, () => Promise.reject(new Error('later')))))(jobOf(id, 2)),
          /later/,
        )
        stale.abort.abort(new Stopping())
      })
      await assert.rejects(generate(options(kind))(stale), Stopping)
      assert.equal((await read(id)).attempts, 2)
    })

    it('stops when it loses its lease, and leaves no file', async () => {
      const id = await add('numbers')
      const job = jobOf(id)
      const kind = numbers(5, (page) => page === 2 && job.abort.abort(new LeaseLost()))
      await assert.rejects(generate(options(kind))(job), LeaseLost)
      assert.equal((await read(id)).attempts, 1)
      assert.deepEqual(readdirSync(folder), [])
    })

    it('cannot overwrite the outcome of the worker that finished first, and removes only its own file (F-ZOMBIE)', async () => {
      const id = await add('numbers')
      let held = true
      const stale = jobOf(id, 1, () => held)
      const kind = numbers(3, async (page) => {
        if (page !== 1) return
        held = false
        await generate(options(numbers(3)))(jobOf(id, 2))
      })
      await assert.rejects(generate(options(kind))(stale), LeaseLost)
      const task = await read(id)
      assert.deepEqual([task.status, task.resultKey, task.attempts], ['completed', `${id}-2`, 2])
      assert.deepEqual(readdirSync(folder), [`${id}-2`])
      assert.equal(fileOf(task).toString(), numbersCsv(30))
      assert.equal((await eventsOf(id)).length, 1)
    })

    it('cannot finish a task that the next worker is processing', async () => {
      const id = await add('numbers')
      const pausing = () => {
        const reached = Promise.withResolvers<void>()
        const resume = Promise.withResolvers<void>()
        const report = numbers(3, (page) => {
          if (page !== 1) return
          reached.resolve()
          return resume.promise
        })
        return { report, reached: reached.promise, resume: resume.resolve }
      }
      const [stale, winner] = [pausing(), pausing()]
      const lost = generate(options(stale.report))(jobOf(id, 1, () => false))
      await stale.reached
      const won = generate(options(winner.report))(jobOf(id, 2))
      await winner.reached
      stale.resume()
      await assert.rejects(lost, LeaseLost)
      assert.equal((await read(id)).status, 'in_progress')
      assert.deepEqual(await eventsOf(id), [])
      winner.resume()
      await won
      assert.deepEqual(readdirSync(folder), [`${id}-2`])
    })

    it('keeps the result if the response to the commit was lost', async () => {
      const id = await add('numbers')
      let writes = 0
      const write: Database['write'] = async (unit) => {
        const value = await db.write(unit)
        writes += 1
        if (writes === 2) throw new Error('Connection terminated')
        return value
      }
      await assert.rejects(generate(options(numbers(3), { db: { ...db, write } }))(jobOf(id)), /terminated/)
      const again = jobOf(id, 2)
      await generate(options(numbers(3)))(again)
      const task = await read(id)
      assert.deepEqual([task.status, task.resultKey, again.finished], ['completed', `${id}-1`, 1])
      assert.equal(fileOf(task).toString(), numbersCsv(30))
      assert.equal((await eventsOf(id)).length, 1)
    })

    it('may leave files after a crash; the next attempt and the sweep remove them', async () => {
      const id = await add('numbers')
      writeFileSync(join(folder, `${id}-1`), 'renamed, never committed')
      writeFileSync(join(folder, `.${id}-2.part`), 'half')
      await generate(options(numbers(1)))(jobOf(id, 3))
      assert.deepEqual(readdirSync(folder).sort(), [`.${id}-2.part`, `${id}-3`])
      assert.equal(await results.sweepTemporary(), 1)
      assert.deepEqual(readdirSync(folder), [`${id}-3`])
    })

    it('ends its job without a report if the task has finished or no longer exists', async () => {
      const id = await add('numbers')
      await generate(options(numbers(1)))(jobOf(id))
      const before = await read(id)
      for (const taskId of [id, `tsk_${'A'.repeat(22)}`]) {
        const job = jobOf(taskId, 2)
        await generate(options(numbers(1)))(job)
        assert.equal(job.finished, 1)
      }
      assert.deepEqual(await read(id), before)
      assert.deepEqual(errors, [])
      assert.deepEqual(readdirSync(folder), [`${id}-1`])
    })
  })

  describe('a report cancelled or deleted during generation', () => {
    for (const [how, change] of [
      ['cancelled', (id: string) => db.write((tx) => cancel(options(numbers(1)), tx, { id }))],
      ['deleted', (id: string) => deleteTask(options(numbers(1)), { id }, {})],
    ] as const) {
      it(`stops within a second when ${how}, and leaves one event but no file`, async (t) => {
        t.mock.timers.enable({ apis: ['setInterval'] })
        const id = await add('numbers')
        const produce: Produce = (_order, signal) =>
          new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason))
          })
        const job = jobOf(id)
        const working = generate(options(numbers(1), { produce }))(job)
        await eventually('it has begun', async () => (await read(id)).status === 'in_progress')
        await change(id)
        t.mock.timers.tick(1_000)
        await working
        assert.equal(job.finished, 1)
        const found = await eventsOf(id)
        assert.deepEqual(
          found.map(({ type }) => type),
          ['report.failed'],
        )
        assert.deepEqual(readdirSync(folder), [])
        assert.deepEqual(errors, [])
      })
    }
  })

  describe('a report generated in its own thread', () => {
    const threaded = () =>
      options(productsReport(), { produce: reportThreads({ databaseUrl: db.url, resultsUrl: folder }).produce })

    for (const format of formats.keys()) {
      it(`is complete as ${format}`, async () => {
        const id = await add('products', format)
        await generate(threaded())(jobOf(id))
        const task = await read(id)
        assert.deepEqual([task.status, task.rowCount, task.errorMessage], ['completed', products, null])
        const file = fileOf(task)
        assert.equal(file.length, task.sizeBytes)
        assert.equal(createHash('sha256').update(file).digest('base64'), task.sha256)
      })
    }

    it('fails permanently if it has more rows than its format allows', async () => {
      const id = await add('products', 'pdf')
      const kind = { ...productsReport().kind, from: '(select * from products, generate_series(1, 5)) as products' }
      const many =
        engine.name === 'postgres'
          ? kind
          : { ...kind, from: '(select products.* from products, (values (1), (2), (3), (4), (5))) as products' }
      await generate({ ...threaded(), kinds: [many] })(jobOf(id))
      const { status, attempts, errorCode, errorMessage } = await read(id)
      assert.deepEqual([status, attempts, errorCode], ['failed', 1, 'VALIDATION_ERROR'])
      assert.match(errorMessage ?? '', /too large: it has 20,500 rows, more than the maximum of 20,000/)
    })

    it('stops if its job loses the lease, and leaves no file behind', async () => {
      const id = await add('products', 'pdf')
      const job = jobOf(id)
      const working = generate(threaded())(job)
      await eventually('its file grows', async () => readdirSync(folder).length > 0)
      job.abort.abort(new LeaseLost())
      await assert.rejects(working, LeaseLost)
      assert.deepEqual(readdirSync(folder), [])
    })

    it('stays in progress for a retry when the thread fails, without revealing the reason (T-OPS-01)', async () => {
      const id = await add('products')
      const broken = { ...productsReport().kind, from: 'no_such_table' }
      await assert.rejects(generate({ ...threaded(), kinds: [broken] })(jobOf(id)), /no_such_table/)
      const task = await read(id)
      assert.deepEqual([task.status, task.attempts, task.errorMessage], ['in_progress', 1, null])
    })
  })

  describe('reports on the real queue', () => {
    const open = () => openQueue({ db, now: Date.now, random: () => 0.5, onError: (error) => errors.push(error) })

    /** Wraps `work`; `done` resolves once this number of jobs has succeeded. */
    function counting(work: Work, jobs: number): { work: Work; done: Promise<void> } {
      const { promise, resolve } = Promise.withResolvers<void>()
      let left = jobs
      return {
        work: async (job) => {
          await work(job)
          left -= 1
          if (left === 0) resolve()
        },
        done: promise,
      }
    }

    it('are generated for every accepted task', async () => {
      const queue = await open()
      const { work, done } = counting(generate(options(productsReport(), { queue })), 4)
      queue.work('report.generate', work)
      const ids = await Promise.all(['csv', 'json', 'csv', 'json'].map((format) => add('products', format, queue)))
      await done
      await queue.stop(1_000)
      for (const id of ids) {
        const task = await read(id)
        assert.deepEqual([task.status, task.rowCount, fileOf(task).length], ['completed', products, task.sizeBytes])
        assert.equal((await eventsOf(id)).length, 1)
      }
      assert.deepEqual(errors, [])
    })

    it('are completed by the next worker, as the same attempt, after the first worker has stopped', async () => {
      const first = await open()
      const reached = Promise.withResolvers<void>()
      const resume = Promise.withResolvers<void>()
      const pausing = numbers(3, (page) => {
        if (page !== 1) return
        reached.resolve()
        return resume.promise
      })
      const interrupted = generate(options(pausing, { queue: first }))
      first.work('report.generate', (job) => {
        job.signal.addEventListener('abort', () => resume.resolve())
        return interrupted(job)
      })
      const id = await add('numbers', 'csv', first)
      await reached.promise
      await first.stop(5_000)
      const second = await open()
      const { work, done } = counting(generate(options(numbers(3), { queue: second })), 1)
      second.work('report.generate', work)
      await done
      await second.stop(1_000)
      const task = await read(id)
      assert.deepEqual([task.status, task.attempts], ['completed', 1])
      assert.equal(fileOf(task).toString(), numbersCsv(30))
      assert.deepEqual(readdirSync(folder), [task.resultKey])
      assert.deepEqual(errors, [])
    })
  })
})
