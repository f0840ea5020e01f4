import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { guardedFetch } from '../../src/code/guarded-fetch.ts'
import { collection, type JobContext, job, Line, service, Type } from '../../src/plinth.ts'
import { jobsOn } from '../jobs/support.ts'
import { forEachEngine } from '../support/engines.ts'
import { jobsOf } from './support.ts'

const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40) }) })

forEachEngine((engine) => {
  describe('fetch in the code of a job', () => {
    const test = jobsOn(engine)
    const requests: string[] = []
    // Both listen on loopback addresses. The first one redirects /moved to the second one.
    const [one, other] = [createServer(), createServer()]
    const url = (path: string, host = '127.0.0.1') => `http://${host}:${(one.address() as AddressInfo).port}${path}`
    before(async () => {
      one.on('request', ({ url: path }, response) => {
        requests.push(String(path))
        const location = `http://127.0.0.2:${(other.address() as AddressInfo).port}/elsewhere`
        response.writeHead(path === '/moved' ? 302 : 200, path === '/moved' ? { location } : {}).end('fetched')
      })
      other.on('request', ({ url: path }, response) => {
        requests.push(String(path))
        response.end('fetched')
      })
      await once(one.listen(0, '127.0.0.1'), 'listening')
      await once(other.listen(0, '127.0.0.2'), 'listening')
    })
    after(() => {
      one.close()
      other.close()
    })

    /** Runs a job with this code and these allowed addresses; returns the job's error, or null. */
    const run = async (allowCidrs: string[], code: (context: JobContext) => Promise<unknown>) => {
      requests.length = 0
      const call = job('call', { input: Type.Object({}), retries: 0, run: (_, context) => code(context) })
      const { fetch, close } = guardedFetch({ policy: { allowHttp: true, allowCidrs } })
      const definition = service({ resources: [notes], code: { call } })
      const worker = await test.node(await jobsOf(test, definition, { fetch }))
      await test.add(worker, {}, {}, 'call')
      const ended = await test.until('ended', ({ status }) => status === 'completed' || status === 'failed')
      await close()
      return ended.error
    }

    it('returns the response of an allowed address, following a redirect', async () => {
      const error = await run(['127.0.0.0/8'], async ({ fetch }) => {
        assert.equal(await (await fetch(url('/moved'))).text(), 'fetched')
      })
      assert.equal(error, null)
      assert.deepEqual(requests, ['/moved', '/elsewhere'])
    })

    it('rejects a private address, given directly or by name, without sending a request', async () => {
      for (const host of ['127.0.0.1', 'localhost']) {
        const error = await run([], ({ fetch }) => fetch(url('/', host)))
        assert.match(String(error), /^TypeError: (fetch: the URL|fetch failed)/)
        assert.deepEqual(requests, [])
      }
    })

    it('rejects a redirect to an address that is not allowed', async () => {
      const error = await run(['127.0.0.1/32'], ({ fetch }) => fetch(url('/moved')))
      assert.match(String(error), /^TypeError: fetch failed/)
      assert.deepEqual(requests, ['/moved'])
    })

    it('rejects inside a transaction, without sending a request', async () => {
      const error = await run(['127.0.0.0/8'], ({ transaction }) => transaction(({ fetch }) => fetch(url('/'))))
      assert.match(String(error), /job call runs in a transaction, which a slow response would hold open/)
      assert.deepEqual(requests, [])
    })
  })
})
