import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import Fastify, { type FastifyInstance } from 'fastify'
import { folderResults } from '../../src/files/folder.ts'
import type { ByteRange, ResultStore } from '../../src/files/store.ts'
import { fromFramework } from '../../src/http/problems/framework-errors.ts'
import { Problem } from '../../src/http/problems/problem.ts'
import type { Queue } from '../../src/queue/queue.ts'
import { generate } from '../../src/reports/generate/generate.ts'
import { reports } from '../../src/reports/routes.ts'
import { taskStates } from '../../src/reports/tasks.ts'
import { watchTasks } from '../../src/reports/wait-for-change.ts'
import type { Database } from '../../src/storage/database.ts'
import type { Snapshot } from '../../src/storage/snapshots/snapshot.ts'
import { forEachEngine } from '../support/engines.ts'
import { numbersKind, produceHere } from '../support/reports.ts'

const start = Date.parse('2026-03-01T12:00:00.000Z')
const resultSeconds = 604_800
const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}
const bytes = 'n\r\n0\r\n1\r\n2\r\n3\r\n'

/** Returns a snapshot of four numbers; reading the snapshot first calls `throwError`, which may throw. */
const numbers = (throwError: () => void): Snapshot => ({
  prepare: async () => {},
  count: async () => 4,
  pages: async function* () {
    throwError()
    yield [[0], [1], [2], [3]]
  },
  close: async () => {},
})

forEachEngine((engine) => {
  let db: Database
  let app: FastifyInstance
  let folder: string
  let clock: number
  let caller: string
  let judged: string[]
  let enqueued: unknown[]
  let opened: (ByteRange | undefined)[]
  let throwError: () => void
  let enqueueFails = false

  const watchedOpen = (open: ResultStore['open']) => (key: string, range?: ByteRange) => {
    opened.push(range)
    return open(key, range)
  }

  const queue: Queue = {
    enqueue: async (_tx, name, payload) => {
      if (enqueueFails) throw new Error('no queue')
      if (name === 'report.generate') enqueued.push(payload)
    },
    work: () => {},
    stop: async () => {},
  }

  before(async () => {
    db = await engine.database()
    folder = mkdtempSync(join(tmpdir(), 'plinth-reports-'))
    const files = folderResults(folder)
    const results = { ...files, open: watchedOpen(files.open) }
    const kinds = [numbersKind]
    const watch = watchTasks({ states: taskStates(db), later })
    const services = { db, queue, results, kinds, watch, now: () => clock, random: randomBytes, taskSeconds: 2_592_000 }
    const produce = produceHere(
      files,
      numbers(() => throwError()),
    )
    work = generate({ ...services, produce, resultSeconds })
    app = Fastify()
    app.decorateRequest('caller', null)
    app.addHook('onRequest', async (request) => {
      const [clientId = '', subject = '', ...scopes] = String(request.headers['x-caller']).split(' ')
      request.caller = { caller: { clientId, subject, scopes: new Set(scopes) } }
    })
    app.setErrorHandler((error: Error, _request, reply) => {
      const problem = error instanceof Problem ? error : fromFramework(error)
      const { message } = problem ?? error
      return reply
        .code(problem?.status ?? 500)
        .headers(problem?.headers ?? {})
        .send({ errorCode: problem?.code, message, errors: problem?.errors })
    })
    const checkCallback = async (url: string) => {
      judged.push(url)
      return url.includes('private') ? { ok: false as const, reason: 'must not be private' } : { ok: true as const }
    }
    for (const prefix of ['', '/v1']) await app.register(reports, { ...services, checkCallback, prefix })
    await app.ready()
  })
  after(async () => {
    await app.close()
    await db.close()
    rmSync(folder, { recursive: true, force: true })
  })
  beforeEach(() => {
    clock = start
    judged = []
    enqueued = []
    opened = []
    throwError = () => {}
    enqueueFails = false
    caller = `cli_${randomBytes(4).toString('hex')}`
  })

  let work: ReturnType<typeof generate>
  type Headers = Record<string, string>

  const as = (scopes = '', client = caller, subject = client) => ({ 'x-caller': `${client} ${subject} ${scopes}` })
  const get = (url: string, headers: Headers = {}) => app.inject({ url, headers: { ...as(), ...headers } })
  const post = (body: object, prefix = '') =>
    app.inject({ method: 'POST', url: `${prefix}/api/reports`, headers: as(), payload: body })

  async function accepted(format = 'csv', prefix = ''): Promise<string> {
    const response = await post({ reportType: 'numbers', format }, prefix)
    assert.equal(response.statusCode, 202, response.body)
    return response.json().taskId
  }
  const run = (taskId: string, attempt = 1) =>
    work({ payload: { taskId }, attempt, signal: new AbortController().signal, finish: async () => {} })
  async function completed(format = 'csv', prefix = ''): Promise<string> {
    const id = await accepted(format, prefix)
    await run(id)
    return id
  }
  async function failed(): Promise<string> {
    const id = await accepted()
    throwError = () => {
      throw new Problem('VALIDATION_ERROR', 'The period is empty')
    }
    await run(id)
    return id
  }

  describe('POST /api/reports', () => {
    it('202 with the task and its status path; a job is added', async () => {
      const response = await post({ reportType: 'numbers', format: 'csv', webhookUrl: 'https://example.test/hook' })
      const task = response.json()
      assert.equal(response.statusCode, 202)
      assert.match(task.taskId, /^tsk_[A-Za-z0-9_-]{22}$/)
      assert.equal(response.headers.location, `/api/reports/${task.taskId}/status`)
      assert.equal(response.headers['retry-after'], '1')
      assert.deepEqual(task, {
        ...{ taskId: task.taskId, status: 'pending', reportType: 'numbers', format: 'csv', progress: 0 },
        ...{ createdAt: '2026-03-01T12:00:00.000Z', attempts: 0 },
        _links: {
          self: { href: `/api/reports/${task.taskId}` },
          status: { href: `/api/reports/${task.taskId}/status` },
          events: { href: `/api/reports/${task.taskId}/events` },
          cancel: { href: `/api/reports/${task.taskId}/cancel`, method: 'POST' },
        },
      })
      assert.deepEqual(enqueued, [{ taskId: task.taskId }])
      assert.deepEqual(judged, ['https://example.test/hook'])
      const row = await db.read.selectFrom('tasks').selectAll().where('id', '=', task.taskId).executeTakeFirstOrThrow()
      assert.deepEqual([row.ownerClient, row.webhookUrl], [caller, 'https://example.test/hook'])
    })

    it('202 with a Location under the request’s version prefix', async () => {
      const response = await post({ reportType: 'numbers', format: 'json' }, '/v1')
      assert.equal(response.headers.location, `/v1/api/reports/${response.json().taskId}/status`)
    })

    it('500 without a new task if the job cannot be added', async () => {
      enqueueFails = true
      assert.equal((await post({ reportType: 'numbers', format: 'csv' })).statusCode, 500)
      assert.deepEqual((await get('/api/reports')).json(), [])
    })

    it('422 listing the allowed report types and formats if the given ones are unknown', async () => {
      const response = await post({ reportType: 'weather', format: 'papyrus', webhookUrl: 'https://private.test' })
      assert.equal(response.statusCode, 422)
      assert.equal(response.json().errorCode, 'VALIDATION_ERROR')
      assert.deepEqual(response.json().errors, [
        { field: 'reportType', message: 'must be one of: numbers' },
        { field: 'format', message: 'must be one of: json, csv, ndjson, xlsx, pdf' },
      ])
    })

    it('422 listing all violations of both the schema and the report type’s rules', async () => {
      const parameters = { sort: 'nothing', filter: { nothing: 1 } }
      const response = await post({
        reportType: 'numbers',
        format: 'y',
        webhookUrl: `nope${'x'.repeat(2_048)}`,
        parameters,
      })
      assert.deepEqual([response.statusCode, response.json().errorCode], [422, 'VALIDATION_ERROR'])
      assert.deepEqual(
        response.json().errors.map(({ field }: { field: string }) => field),
        ['webhookUrl', 'format', 'webhookUrl', 'parameters.filter.nothing', 'parameters.sort'],
      )
    })

    for (const webhookUrl of ['x', '', '//example.com', 'https://example.com:99999/']) {
      it(`422 VALIDATION_ERROR for a callback address that is not a valid URL: ${JSON.stringify(webhookUrl)}`, async () => {
        const response = await post({ reportType: 'numbers', format: 'csv', webhookUrl })
        assert.deepEqual([response.statusCode, response.json().errorCode], [422, 'VALIDATION_ERROR'])
        assert.deepEqual(response.json().errors, [{ field: 'webhookUrl', message: 'is not a valid URL' }])
      })
    }

    it('422 if requests to the callback address are not allowed', async () => {
      const response = await post({ reportType: 'numbers', format: 'csv', webhookUrl: 'https://private.test' })
      assert.equal(response.statusCode, 422)
      assert.equal(response.json().errorCode, 'CALLBACK_URL_BLOCKED')
      assert.deepEqual(response.json().errors, [{ field: 'webhookUrl', message: 'must not be private' }])
      assert.deepEqual(enqueued, [])
    })

    it('400 if a required field is missing', async () => {
      assert.equal((await post({ format: 'csv' })).statusCode, 400)
      assert.equal((await post({ reportType: 'numbers' })).statusCode, 400)
    })
  })

  describe('GET /api/reports', () => {
    it("200 with the caller's own tasks, newest first", async () => {
      const ids: string[] = []
      for (let n = 0; n < 3; n++) {
        clock += 1_000
        ids.unshift(await accepted())
      }
      const other = as('', `${caller}_other`)
      await app.inject({
        method: 'POST',
        url: '/api/reports',
        headers: other,
        payload: { reportType: 'numbers', format: 'csv' },
      })
      const listed = async (query = '') =>
        (await get(`/api/reports${query}`)).json().map(({ taskId }: { taskId: string }) => taskId)
      assert.deepEqual(await listed(), ids)
      assert.deepEqual(await listed('?limit=2'), ids.slice(0, 2))
      assert.deepEqual(await listed('?limit=5000'), ids)
    })

    it('200 without the tasks of the same client’s other subjects', async () => {
      await accepted()
      assert.deepEqual((await get('/api/reports', as('', caller, 'usr_2'))).json(), [])
    })

    it('400 for a limit that is not a positive integer', async () => {
      for (const limit of ['0', '-1', 'x', '1.5']) {
        assert.equal((await get(`/api/reports?limit=${limit}`)).statusCode, 400, limit)
      }
    })
  })

  for (const part of ['', '/status']) {
    describe(`GET /api/reports/{taskId}${part}`, () => {
      const read = (id: string, headers: Headers = {}) => get(`/api/reports/${id}${part}`, headers)

      it('200 with a Retry-After that grows with the age of an unfinished task, up to 15 seconds', async () => {
        const id = await accepted()
        const waits: unknown[] = []
        for (const ageSeconds of [0, 3, 5, 30, 60, 600]) {
          clock = start + ageSeconds * 1_000
          waits.push((await read(id)).headers['retry-after'])
        }
        assert.deepEqual(waits, ['1', '1', '2', '8', '15', '15'])
      })

      it('200 with the result path once the task is completed', async () => {
        const id = await accepted('csv', '/v1')
        clock += 2_000
        await run(id)
        const response = await read(id)
        assert.equal(response.statusCode, 200)
        assert.equal(response.headers['retry-after'], undefined)
        assert.deepEqual(response.json(), {
          ...{ taskId: id, status: 'completed', resultUrl: `/v1/api/reports/${id}/download` },
          ...{ reportType: 'numbers', format: 'csv', progress: 100, attempts: 1, rowCount: 4, sizeBytes: 15 },
          ...{ createdAt: '2026-03-01T12:00:00.000Z', startedAt: '2026-03-01T12:00:02.000Z' },
          ...{ completedAt: '2026-03-01T12:00:02.000Z', expiresAt: '2026-03-08T12:00:02.000Z' },
          _links: {
            self: { href: `/v1/api/reports/${id}` },
            status: { href: `/v1/api/reports/${id}/status` },
            download: { href: `/v1/api/reports/${id}/download` },
            retry: { href: `/v1/api/reports/${id}/retry`, method: 'POST' },
            delete: { href: `/v1/api/reports/${id}`, method: 'DELETE' },
          },
        })
      })

      it('200 with the error of a failed task', async () => {
        const id = await failed()
        const response = await read(id)
        assert.equal(response.statusCode, 200)
        assert.equal(response.headers['retry-after'], undefined)
        const { status, error, resultUrl } = response.json()
        assert.deepEqual([status, resultUrl], ['failed', undefined])
        assert.deepEqual(error, { errorCode: 'VALIDATION_ERROR', message: 'The period is empty' })
      })
    })
  }

  describe('another owner’s task', () => {
    it('404 for the task, its status and its download, as for an unknown task', async () => {
      const id = await completed()
      const missing = `tsk_${'A'.repeat(22)}`
      for (const part of ['', '/status', '/download']) {
        const responses = [
          await get(`/api/reports/${missing}${part}`),
          await get(`/api/reports/nonsense%00${part}`),
          await get(`/api/reports/${id}${part}`, as('', `${caller}_other`)),
          await get(`/api/reports/${id}${part}`, as('', caller, 'usr_2')),
          await get(`/api/reports/${id}${part}`, as('', `${caller}_other`, caller)),
        ]
        const [first, ...rest] = responses.map(({ statusCode, body }) => [statusCode, body])
        assert.equal(first?.[0], 404)
        assert.equal(JSON.parse(first?.[1] as string).errorCode, 'RESOURCE_NOT_FOUND')
        for (const response of rest) assert.deepEqual(response, first)
      }
    })

    it('200 with the admin scope', async () => {
      const id = await completed()
      for (const part of ['', '/status', '/download']) {
        assert.equal((await get(`/api/reports/${id}${part}`, as('admin', 'cli_root'))).statusCode, 200, part)
      }
    })
  })

  describe('GET /api/reports/{taskId}/download', () => {
    const sha256 = createHash('sha256').update(bytes).digest('base64')
    const path = (id: string) => `/api/reports/${id}/download`

    it('200 with the bytes, their digest and a file name', async () => {
      const id = await completed()
      const { statusCode, headers, body } = await get(path(id))
      assert.deepEqual([statusCode, body], [200, bytes])
      assert.equal(headers['content-type'], 'text/csv; charset=utf-8; header=present')
      assert.equal(headers['content-disposition'], `attachment; filename="report-numbers-${id}.csv"`)
      assert.equal(headers['content-length'], '15')
      assert.equal(headers['accept-ranges'], 'bytes')
      assert.equal(headers.etag, `"${sha256}"`)
      assert.equal(headers['repr-digest'], `sha-256=:${sha256}:`)
    })

    it('200 with the media type and file extension of a JSON report', async () => {
      const { headers, body } = await get(path(await completed('json')))
      assert.equal(headers['content-type'], 'application/json')
      assert.match(String(headers['content-disposition']), /\.json"$/)
      assert.deepEqual(JSON.parse(body), [{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }])
    })

    it('200 regardless of Accept, because the result has only one representation', async () => {
      const id = await completed()
      for (const accept of ['text/csv', 'application/octet-stream', 'application/json', 'text/csv;q=0, text/*', 'x']) {
        const response = await get(path(id), { accept, 'accept-encoding': 'identity;q=0' })
        assert.deepEqual(
          [response.statusCode, response.headers['content-type']],
          [200, 'text/csv; charset=utf-8; header=present'],
          accept,
        )
      }
    })

    it('never applies a content coding, because the ETag and ranges refer to the stored bytes', async () => {
      const id = await completed()
      for (const range of [undefined, 'bytes=0-4']) {
        const { headers, body } = await get(path(id), { 'accept-encoding': 'gzip, br', ...(range && { range }) })
        assert.equal(headers['content-encoding'], undefined)
        assert.deepEqual([body, headers.etag], [range ? bytes.slice(0, 5) : bytes, `"${sha256}"`])
      }
    })

    it('206 for a single range', async () => {
      const id = await completed()
      const cases = [
        ['bytes=0-0', 'n', '0-0'],
        ['bytes=3-5', '0\r\n', '3-5'],
        ['bytes=12-', '3\r\n', '12-14'],
        ['bytes=12-999', '3\r\n', '12-14'],
        ['bytes=-3', '3\r\n', '12-14'],
        ['bytes=-999', bytes, '0-14'],
        ['Bytes=0-14', bytes, '0-14'],
      ] as const
      for (const [range, part, place] of cases) {
        const { statusCode, headers, body } = await get(path(id), { range })
        assert.deepEqual([statusCode, body], [206, part], range)
        assert.equal(headers['content-range'], `bytes ${place}/15`)
        assert.equal(headers['content-length'], String(part.length))
        assert.equal(headers.etag, `"${sha256}"`)
        assert.equal(headers['repr-digest'], `sha-256=:${sha256}:`)
      }
      assert.deepEqual(opened[1], { start: 3, end: 5 })
    })

    it('200 with the whole result for multiple ranges, other units and malformed ranges', async () => {
      const id = await completed()
      for (const range of ['bytes=0-0,2-3', 'bytes=5-3', 'bytes=-', 'bytes=a-b', 'bytes 0-1', 'rows=0-1', '']) {
        const { statusCode, body, headers } = await get(path(id), { range })
        assert.deepEqual([statusCode, body, headers['content-range']], [200, bytes, undefined], range)
      }
    })

    it('416 for a range outside the result', async () => {
      const id = await completed()
      for (const range of ['bytes=15-', 'bytes=15-20', 'bytes=-0', `bytes=${'9'.repeat(400)}-`]) {
        const response = await get(path(id), { range })
        assert.equal(response.statusCode, 416, range)
        assert.equal(response.json().errorCode, 'RANGE_NOT_SATISFIABLE')
        assert.equal(response.headers['content-range'], 'bytes */15')
      }
      assert.deepEqual(opened, [])
    })

    it('206 if If-Range is the current strong entity tag, 200 otherwise', async () => {
      const id = await completed()
      const status = async (condition: string, range = 'bytes=0-1') =>
        (await get(path(id), { range, 'if-range': condition })).statusCode
      assert.equal(await status(`"${sha256}"`), 206)
      assert.equal(await status(`W/"${sha256}"`), 200)
      assert.equal(await status('"other"'), 200)
      assert.equal(await status('Sun, 01 Mar 2026 12:00:00 GMT'), 200)
      assert.equal(await status('"other"', 'bytes=99-'), 200)
    })

    it('304 if If-None-Match is * or lists the current entity tag, even with a range', async () => {
      const id = await completed()
      for (const tag of [`"${sha256}"`, `W/"${sha256}"`, `"a", "${sha256}"`, '*']) {
        const response = await get(path(id), { 'if-none-match': tag, range: 'bytes=0-1' })
        assert.deepEqual([response.statusCode, response.body, response.headers.etag], [304, '', `"${sha256}"`], tag)
        assert.equal(response.headers['content-length'], undefined)
      }
      assert.equal((await get(path(id), { 'if-none-match': '"other"' })).statusCode, 200)
      assert.equal(opened.length, 1)
    })

    it('412 if If-Match lists only other or weak entity tags', async () => {
      const id = await completed()
      const status = async (tag: string) => (await get(path(id), { 'if-match': tag })).statusCode
      assert.equal(await status('"other"'), 412)
      assert.equal(await status(`W/"${sha256}"`), 412)
      assert.equal(await status(`"${sha256}"`), 200)
      assert.equal(await status('*'), 200)
    })

    it('200 for HEAD with the same headers as for GET; ranges are ignored, and the file is not opened', async () => {
      const id = await completed()
      const whole = await get(path(id))
      opened.length = 0
      const head = (headers: Headers = {}) =>
        app.inject({ method: 'HEAD', url: path(id), headers: { ...as(), ...headers } })
      for (const range of ['', 'bytes=0-1', 'bytes=99-']) {
        const response = await head({ range })
        assert.deepEqual([response.statusCode, response.body], [200, ''])
        assert.deepEqual({ ...response.headers, date: '' }, { ...whole.headers, date: '' })
      }
      const unchanged = await head({ 'if-none-match': `"${sha256}"` })
      assert.deepEqual([unchanged.statusCode, unchanged.headers['content-length']], [304, undefined])
      assert.deepEqual(opened, [])
    })

    it('409 with Retry-After until the task is completed', async () => {
      const id = await accepted()
      clock += 20_000
      const response = await get(path(id))
      assert.deepEqual([response.statusCode, response.json().errorCode], [409, 'TASK_NOT_COMPLETED'])
      assert.equal(response.headers['retry-after'], '5')
    })

    it('409 if the task has failed', async () => {
      const response = await get(path(await failed()))
      assert.deepEqual([response.statusCode, response.json().errorCode], [409, 'TASK_FAILED'])
      assert.equal(response.headers['retry-after'], undefined)
    })

    it('410 from the moment the result expires', async () => {
      const id = await completed()
      clock += resultSeconds * 1_000 - 1
      assert.equal((await get(path(id))).statusCode, 200)
      clock += 1
      const response = await get(path(id))
      assert.deepEqual([response.statusCode, response.json().errorCode], [410, 'RESULT_EXPIRED'])
      assert.equal((await get(`/api/reports/${id}`)).statusCode, 200)
    })

    it('500 without any of the result’s headers if the file is missing', async () => {
      const id = await completed()
      rmSync(join(folder, `${id}-1`))
      const response = await get(path(id))
      assert.equal(response.statusCode, 500)
      assert.equal(response.headers['repr-digest'], undefined)
      assert.match(String(response.headers['content-type']), /json/)
    })
  })

  describe('GET /api/report-types', () => {
    it('200 with every type, its formats, columns and parameters', async () => {
      const response = await get('/v1/api/report-types')
      assert.equal(response.statusCode, 200)
      assert.deepEqual(response.json(), [
        {
          ...{ reportType: 'numbers', title: 'Numbers', formats: ['json', 'csv', 'ndjson', 'xlsx', 'pdf'] },
          columns: [{ name: 'n', type: 'integer' }],
          parameters: {
            type: 'object',
            properties: {
              fields: {
                anyOf: [{ type: 'array', items: { type: 'string', enum: ['n'] } }, { type: 'string' }],
                description: 'The columns to include, in this order; or a comma-separated string',
              },
            },
            additionalProperties: false,
          },
        },
      ])
    })
  })

  describe('every report route', () => {
    it('declares its scope, its cacheability and its operation id', async () => {
      const routes: [string, unknown][] = []
      const bare = Fastify()
      bare.addHook('onRoute', ({ method, url, config, schema }) => {
        const about = schema as { operationId?: string; summary?: string; tags?: string[]; response?: object }
        assert.ok(about.summary && about.response && about.tags?.includes('reports'), url)
        routes.push([`${method} ${url}`, [config?.scope, config?.cache, about.operationId]])
      })
      const watch = watchTasks({ states: taskStates(db), later })
      const about = { kinds: [], watch, now: () => clock, random: randomBytes, taskSeconds: 2_592_000 }
      const services = { db, queue, results: folderResults(folder), ...about }
      await bare.register(reports, services)
      await bare.ready()
      assert.deepEqual(Object.fromEntries(routes.filter(([name]) => !name.startsWith('HEAD'))), {
        'POST /api/reports': ['reports:write', 'none', 'createReport'],
        'GET /api/reports': ['reports:read', 'private', 'listReports'],
        'GET /api/report-types': ['reports:read', 'private', 'listReportTypes'],
        'GET /api/reports/:taskId': ['reports:read', 'private', 'readReport'],
        'GET /api/reports/:taskId/status': ['reports:read', 'private', 'readReportStatus'],
        'GET /api/reports/:taskId/download': ['reports:read', 'none', 'downloadReport'],
        'GET /api/reports/:taskId/events': ['reports:read', 'none', 'watchReport'],
        'POST /api/reports/:taskId/retry': ['reports:write', 'none', 'retryReport'],
        'POST /api/reports/:taskId/cancel': ['reports:write', 'none', 'cancelReport'],
        'DELETE /api/reports/:taskId': ['reports:write', 'none', 'deleteReport'],
      })
      await bare.close()
    })
  })
})
