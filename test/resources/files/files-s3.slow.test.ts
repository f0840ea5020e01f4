// Runs in its own process: sets environment variables.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { CreateMultipartUploadCommand, S3Client } from '@aws-sdk/client-s3'
import { openResults } from '../../../src/files/open.ts'
import { removeUnusedFiles } from '../../../src/files/remove-unused.ts'
import type { ResultStore } from '../../../src/files/store.ts'
import { collection, File, Line, service, Type } from '../../../src/plinth.ts'
import type { Database } from '../../../src/storage/database.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { addUpload } from '../../../src/storage/stored-files.ts'
import { type TestApp, testApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { s3Missing, s3Server } from '../../support/s3.ts'

const scan = Type.Optional(File({ maxBytes: 20_000_000, types: ['application/octet-stream'] }))
const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40), scan }) })
const definition = service({ resources: [notes] })
const scopes = 'notes:read notes:write'
const hourMs = 3_600_000

forEachEngine((engine) => {
  describe('files in S3', { skip: s3Missing }, () => {
    let [db, app, store] = [] as unknown as [Database, TestApp, ResultStore]
    let stop: () => void
    let url: string
    before(async () => {
      const s3 = await s3Server()
      stop = s3.stop
      url = s3.url
      store = await openResults(s3.url)
      db = await engine.database()
      await migrate(db, { tables: definition.tables })
      app = await testApp(db, { prefixes: [''], definition, results: store })
    })
    after(async () => {
      await app.app.close()
      await db.close()
      stop()
    })

    const put = (url: string, payload: Buffer, headers: object = {}) =>
      app.send({
        method: 'PUT',
        url,
        scopes,
        payload,
        headers: { 'content-type': 'application/octet-stream', ...headers },
      })
    const sweep = (now: number) =>
      removeUnusedFiles({ db, store, now: () => now, onError: (error) => assert.fail(String(error)) })
    const newNote = async () => {
      const answer = await app.send({ method: 'POST', url: '/notes', scopes, payload: { text: 'a' } })
      return `/notes/${answer.json().id}`
    }

    it('are stored, replaced, read and removed, whether uploaded in one part or several', async () => {
      const url = await newNote()
      for (const size of [0, 1_000, 17_000_000]) {
        const bytes = randomBytes(size)
        const answer = await put(`${url}/scan`, bytes)
        assert.ok([201, 204].includes(answer.statusCode), answer.body)
        assert.equal(answer.headers.etag, `"${createHash('sha256').update(bytes).digest('base64')}"`)
        const read = await app.send({ url: `${url}/scan`, scopes })
        assert.ok(read.rawPayload.equals(bytes))
      }
      const part = await app.send({ url: `${url}/scan`, scopes, headers: { range: 'bytes=16999990-' } })
      assert.deepEqual([part.statusCode, part.rawPayload.length], [206, 10])
      assert.equal(await sweep(app.clock.now + 2 * hourMs), 2)
      assert.equal((await app.send({ method: 'DELETE', url, scopes })).statusCode, 204)
      assert.equal(await sweep(app.clock.now + 2 * hourMs), 1)
      assert.deepEqual(await store.keys(), [])
    })

    it('leave neither an object nor a multipart upload after a rejected or crashed upload', async () => {
      const path = `${await newNote()}/scan`
      const digest = `sha-256=:${createHash('sha256').digest('base64')}:`
      assert.equal((await put(path, randomBytes(9_000_000), { 'repr-digest': digest })).statusCode, 422)
      assert.deepEqual([await store.keys(), await store.sweepTemporary()], [[], 0])
      await addUpload(db, 'fil_crashed', { table: 'resource_notes', id: 1 }, app.clock.now)
      const { hostname: Bucket, pathname } = new URL(url)
      const client = new S3Client({ forcePathStyle: true })
      await client.send(new CreateMultipartUploadCommand({ Bucket, Key: `${pathname.slice(1)}/fil_crashed` }))
      client.destroy()
      assert.equal(await sweep(app.clock.now + 2 * hourMs), 1)
      assert.equal(await store.sweepTemporary(), 0)
    })
  })
})
