import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { Agent, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { removeUnusedFiles } from '../../../src/files/remove-unused.ts'
import { collection, File, Line, Ref, service, Type } from '../../../src/plinth.ts'
import { expireDeletedRows } from '../../../src/storage/deleted-rows.ts'
import { abandonUploads, addUpload } from '../../../src/storage/stored-files.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine, onSqlite } from '../../support/engines.ts'

const scan = Type.Optional(File({ maxBytes: 50_000_000, types: ['application/pdf', 'application/octet-stream'] }))
const folders = collection({ path: '/folders', noun: 'folder', body: Type.Object({ title: Line(1, 40) }) })
const pages = collection({
  path: '/pages',
  noun: 'page',
  body: Type.Object({ folderId: Ref(folders, { onDelete: 'cascade' }), scan, back: scan }),
})
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ text: Line(1, 40), scan }),
  keepDeleted: '1 days',
})
const definition = service({ resources: [folders, pages, notes] })
const scopes = 'folders:write folders:read pages:write pages:read notes:write notes:read'
const hourMs = 3_600_000

const pdf = (size = 2_000) => Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(size)])
const binary = { 'content-type': 'application/octet-stream' }

forEachEngine((engine) => {
  describe('stored files', () => {
    const service = appOn(engine, { prefixes: [''], definition, maxUploads: 2 })
    const put = (url: string, payload: Buffer | Readable) =>
      service.send({ method: 'PUT', url, scopes, payload, headers: { 'content-type': 'application/pdf' } })
    const get = (url: string) => service.send({ url, scopes })
    const remove = (url: string) => service.send({ method: 'DELETE', url, scopes })
    const post = async (url: string, payload: object): Promise<string> => {
      const answer = await service.send({ method: 'POST', url, scopes, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return `${url}/${answer.json().id}`
    }
    const newPage = async () => post('/pages', { folderId: Number((await post('/folders', { title: 'a' })).slice(9)) })
    const keys = async () => (await service.results.keys()).sort()
    const errors: unknown[] = []
    const sweep = (atMs = service.clock.now) =>
      removeUnusedFiles({
        ...{ db: service.db, store: service.results, now: () => atMs },
        onError: (error) => errors.push(error),
      })
    const states = async () => {
      const rows = await service.db.read.selectFrom('storedFiles').select('state').execute()
      return rows.map(({ state }) => state).sort()
    }
    /** Removes every file that no row refers to, and returns the number of remaining files. */
    const settled = async () => {
      await sweep(service.clock.now + 3 * hourMs)
      return (await keys()).length
    }

    it('are removed an hour after they were replaced or deleted', async () => {
      const before = await settled()
      const url = `${await newPage()}/scan`
      await put(url, pdf())
      await put(url, pdf())
      await sweep(service.clock.now + hourMs - 1)
      assert.equal((await keys()).length, before + 2)
      assert.equal(await sweep(service.clock.now + hourMs), 1)
      assert.equal((await get(url)).statusCode, 200)
      assert.equal((await remove(url)).statusCode, 204)
      assert.equal(await settled(), before)
    })

    it('of one field are kept when another field’s file with the same content is deleted', async () => {
      const before = await settled()
      const url = await newPage()
      const bytes = pdf()
      await put(`${url}/scan`, bytes)
      await put(`${url}/back`, bytes)
      await put(`${url}/back`, bytes)
      assert.equal(await settled(), before + 2)
      await remove(`${url}/scan`)
      assert.equal(await settled(), before + 1)
      assert.ok((await get(`${url}/back`)).rawPayload.equals(bytes))
    })

    it('are removed after their row is deleted, directly or by a cascade', async () => {
      const before = await settled()
      const url = await newPage()
      const { folderId } = (await get(url)).json()
      const other = await post('/pages', { folderId })
      for (const page of [url, other]) await put(`${page}/scan`, pdf())
      await remove(url)
      assert.equal(await settled(), before + 1)
      assert.equal((await remove(`/folders/${folderId}`)).statusCode, 204)
      assert.equal(await settled(), before)
    })

    it('of a deleted row are kept until its final deletion or expiry, and are served after a restore', async () => {
      const before = await settled()
      const bytes = pdf()
      const deleted = async () => {
        const url = await post('/notes', { text: 'a' })
        await put(`${url}/scan`, bytes)
        await remove(url)
        assert.equal(await settled(), before + 1)
        return url
      }
      const restored = await deleted()
      assert.equal(
        (await service.send({ method: 'POST', url: `/api/deleted${restored}/restore`, scopes })).statusCode,
        201,
      )
      assert.ok((await get(`${restored}/scan`)).rawPayload.equals(bytes))
      await remove(`${restored}/scan`)
      assert.equal(await settled(), before)
      const erased = await deleted()
      assert.equal((await remove(`/api/deleted${erased}`)).statusCode, 204)
      assert.equal(await settled(), before)
      await deleted()
      const later = service.clock.now + 25 * hourMs
      await expireDeletedRows(service.db, () => later)
      await sweep(later + hourMs)
      assert.equal((await keys()).length, before)
    })

    it('are removed after a rejected upload, even if it is rejected after the last byte', async () => {
      const before = await settled()
      const url = `${await newPage()}/scan`
      assert.equal((await put(url, randomBytes(3_000))).statusCode, 415)
      const digest = `sha-256=:${createHash('sha256').digest('base64')}:`
      const headers = { 'content-type': 'application/pdf', 'repr-digest': digest }
      assert.equal((await service.send({ method: 'PUT', url, scopes, payload: pdf(), headers })).statusCode, 422)
      assert.deepEqual([(await keys()).length, (await states()).includes('uploading')], [before, false])
    })

    it('404 if the row is deleted during the upload; the file is removed', async () => {
      const before = await settled()
      const page = await newPage()
      const body = async function* () {
        yield pdf()
        assert.equal((await remove(page)).statusCode, 204)
        yield randomBytes(1_000)
      }
      assert.equal((await put(`${page}/scan`, Readable.from(body()))).statusCode, 404)
      assert.equal((await keys()).length, before)
    })

    it('201 and 204 for two concurrent uploads; only one of the files is kept', async () => {
      const before = await settled()
      const url = `${await newPage()}/scan`
      const answers = await Promise.all([put(url, pdf()), put(url, pdf())])
      assert.deepEqual(answers.map(({ statusCode }) => statusCode).sort(), [201, 204])
      assert.equal(await settled(), before + 1)
      assert.equal((await get(url)).statusCode, 200)
    })

    it('of a crashed upload are removed; 500 for an upload in progress that was considered crashed', async () => {
      const before = await settled()
      const page = await newPage()
      const owner = { table: 'resource_pages', id: Number(page.slice(7)) }
      await addUpload(service.db, 'fil_crashed', owner, service.clock.now)
      const writer = await service.results.create('fil_crashed')
      await writer.write('half')
      await writer.finish()
      await sweep()
      assert.equal((await keys()).length, before + 1)
      assert.equal(await settled(), before)
      const body = async function* () {
        yield pdf()
        await abandonUploads(service.db, service.clock.now, true)
      }
      const answer = await put(`${page}/scan`, Readable.from(body()))
      assert.equal(answer.statusCode, 500)
      assert.match(String(service.faults.pop()), /abandoned/)
      assert.equal(await settled(), before)
    })

    it('are removed if the client disconnects during the upload, and the upload slot becomes free', async () => {
      const before = await settled()
      const url = `${await newPage()}/scan`
      await service.app.listen({ port: 0, host: '127.0.0.1' })
      const { port } = service.app.server.address() as AddressInfo
      const headers = { authorization: `Bearer ${token(scopes)}`, 'x-forwarded-proto': 'https', ...binary }
      for (let round = 0; round < 5; round++) {
        const request = httpRequest({ host: '127.0.0.1', port, path: url, method: 'PUT', headers })
        request.on('error', () => {})
        request.write(randomBytes(300_000))
        while (!(await states()).includes('uploading')) await turn()
        const closed = new Promise((resolve) => request.once('close', resolve))
        request.destroy()
        await closed
        while ((await states()).includes('uploading')) await turn()
      }
      assert.equal(await settled(), before)
      assert.equal((await get(url)).statusCode, 404)
    })

    it('429 with Retry-After for a third concurrent upload by one account if the limit is two', async () => {
      const url = `${await newPage()}/scan`
      const started = Promise.withResolvers<void>()
      const released = Promise.withResolvers<void>()
      let waiting = 0
      const body = async function* () {
        yield pdf()
        if (++waiting === 2) started.resolve()
        await released.promise
      }
      const uploads = [put(url, Readable.from(body())), put(url, Readable.from(body()))]
      await started.promise
      const third = await put(url, pdf())
      assert.deepEqual([third.statusCode, third.headers['retry-after']], [429, '5'])
      released.resolve()
      for (const answer of await Promise.all(uploads)) assert.ok(answer.statusCode < 300)
    })

    it('are stored while they arrive: at most 4 MB of the body are buffered', async () => {
      const url = `${await newPage()}/scan`
      let [produced, ahead] = [0, 0]
      const chunk = randomBytes(65_536)
      const written = { bytes: 0 }
      const { create } = service.results
      service.results.create = async (key) => {
        const writer = await create(key)
        const write: typeof writer.write = async (bytes) => {
          await writer.write(bytes)
          written.bytes += bytes.length
        }
        return { ...writer, write }
      }
      const body = function* () {
        for (; produced < 40_000_000; produced += chunk.length) {
          ahead = Math.max(ahead, produced - written.bytes)
          yield chunk
        }
      }
      const answer = await service.send({ method: 'PUT', url, scopes, payload: Readable.from(body()), headers: binary })
      service.results.create = create
      assert.equal(answer.statusCode, 201, answer.body)
      assert.ok(ahead < 4_000_000, `${ahead} bytes were buffered`)
    })
  })
})

onSqlite((engine) => {
  describe('a slow upload', () => {
    const timeouts = { requestTimeout: 500, headersTimeout: 400, connectionsCheckingInterval: 50 }
    const service = appOn(engine, { prefixes: [''], definition, timeouts, maxUploads: 1 })

    it('408 if the body does not arrive in time; no file remains, and the upload slot is free again', async () => {
      const scopedAs = { authorization: `Bearer ${token(scopes)}`, 'x-forwarded-proto': 'https' }
      const created = await service.send({ method: 'POST', url: '/notes', scopes, payload: { text: 'a' } })
      const path = `/notes/${created.json().id}/scan`
      await service.app.listen({ port: 0, host: '127.0.0.1' })
      const { port } = service.app.server.address() as AddressInfo
      for (let round = 0; round < 2; round++) {
        const request = httpRequest({
          host: '127.0.0.1',
          port,
          path,
          method: 'PUT',
          headers: { ...scopedAs, ...binary },
        })
        request.on('error', () => {})
        const answered = new Promise<number | undefined>((resolve) =>
          request.once('response', (response) => resolve(response.resume().statusCode)),
        )
        request.write(randomBytes(300_000))
        assert.equal(await answered, 408)
        request.destroy()
        const count = () => service.db.read.selectFrom('storedFiles').select('key').execute()
        while ((await count()).length > 0) await turn()
      }
      assert.deepEqual(await service.results.keys(), [])
    })
  })
})

onSqlite((engine) => {
  describe('an upload that is rejected before its body has arrived', () => {
    const service = appOn(engine, { prefixes: [''], definition })

    it('415, after which the connection can be reused', async () => {
      const created = await service.send({ method: 'POST', url: '/notes', scopes, payload: { text: 'a' } })
      const path = `/notes/${created.json().id}/scan`
      await service.app.listen({ port: 0, host: '127.0.0.1' })
      const { port } = service.app.server.address() as AddressInfo
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const send = (method: string, headers: object, body?: Buffer) =>
        new Promise<[status: number | undefined, isReused: boolean]>((resolve, reject) => {
          const sent = { authorization: `Bearer ${token(scopes)}`, 'x-forwarded-proto': 'https', ...headers }
          const request = httpRequest({ host: '127.0.0.1', port, path, method, agent, headers: sent })
          request.once('error', reject).once('response', (response) => {
            response.resume().once('end', () => resolve([response.statusCode, request.reusedSocket]))
          })
          request.end(body)
        })
      const headers = { 'content-type': 'application/pdf', 'content-length': '900000' }
      assert.deepEqual(await send('PUT', headers, randomBytes(900_000)), [415, false])
      assert.deepEqual(await send('GET', {}), [404, true])
      agent.destroy()
    })
  })
})
