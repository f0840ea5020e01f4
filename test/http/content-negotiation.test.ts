import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Type } from 'typebox'
import { type Mounted, mount, send } from './support.ts'

describe('content negotiation', () => {
  let mounted: Mounted
  let reached: string[]
  before(async () => {
    reached = []
    const noted = (name: string) => async () => {
      reached.push(name)
      return { name }
    }
    mounted = await mount(['contentNegotiation', 'bodyParsing', 'caching', 'methods'], (app) => {
      const config = { scope: 'public', cache: 'public' } as const
      const body = Type.Object({ name: Type.String() })
      const csv = { content: { 'text/csv; charset=utf-8': { schema: Type.String() } } }
      app.get('/things', { config }, noted('list'))
      app.post('/things', { config, schema: { body } }, noted('create'))
      app.delete('/things', { config }, async (_request, reply) => {
        reached.push('remove')
        return reply.code(204).send()
      })
      app.get('/file', { config: { scope: 'public' }, schema: { response: { 200: csv } } }, noted('file'))
      app.get('/page', { config: { scope: 'public', produces: ['text/html', 'application/json'] } }, noted('page'))
      app.get('/own', { config: { scope: 'own' } }, noted('own'))
      app.get('/probe', { config: { scope: 'public', produces: [] } }, noted('probe'))
      app.get('/guarded', { config: { scope: 'things:read' } }, noted('guarded'))
      app.get('/secret', { config: { scope: 'public' } }, noted('secret'))
    })
  })
  after(() => mounted.app.close())

  type Sent = Parameters<typeof send>[1]
  const status = async (headers: Record<string, string>, url = '/things', more: Sent = {}) =>
    (await send(mounted, { url, headers, ...more })).statusCode

  describe('Accept (RFC 9110 §12.5.1)', () => {
    const enough = [
      '',
      ' ',
      '*/*',
      'application/json',
      'Application/JSON',
      'application/*',
      'application/json; charset=utf-8',
      'application/json;q=0.001',
      'text/html, application/json',
      'text/html, */*;q=0.1',
      'text/html;q=1, application/*;q=0.2',
      'text/x;note="a, b;q=0", application/json',
      'application/json;v=1;q=0, application/json',
    ]
    const tooLittle = [
      'text/html',
      'application/xml, text/*',
      'application/json;q=0',
      'application/json;q=0, */*',
      'application/*;q=0, */*',
      '*/*;q=0',
      '*/*;q=0.0',
      'application/problem+json',
      'application/jsonp',
      'json',
      'text/x;note="application/json, */*"',
    ]
    it('200 without Accept', async () => assert.equal(await status({}), 200))
    for (const accept of enough) {
      it(`200 for "${accept}"`, async () => assert.equal(await status({ accept }), 200))
    }
    for (const accept of tooLittle) {
      it(`406 NOT_ACCEPTABLE for "${accept}", without running the handler`, async () => {
        reached.length = 0
        const answer = await send(mounted, { url: '/things', headers: { accept } })
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [406, 'NOT_ACCEPTABLE'])
        assert.match(answer.json().detail, /application\/json/)
        assert.deepEqual(reached, [])
      })
    }

    it('406 for a write, before the body is validated and without any change', async () => {
      reached.length = 0
      const post = (payload: string, type = 'application/json') =>
        status({ accept: 'text/html', 'content-type': type }, '/things', { method: 'POST', payload })
      assert.equal(await post('{"name":"Pen"}'), 406)
      assert.equal(await post('{'), 406)
      assert.equal(await post('Pen', 'text/plain'), 406)
      assert.deepEqual(reached, [])
    })

    it('204 for DELETE regardless of Accept, because there is no representation', async () => {
      assert.equal(await status({ accept: 'text/html' }, '/things', { method: 'DELETE' }), 204)
    })

    it('406 without a body for HEAD if GET gets 406', async () => {
      const answer = await send(mounted, { url: '/things', method: 'HEAD', headers: { accept: 'text/html' } })
      assert.deepEqual([answer.statusCode, answer.body], [406, ''])
    })

    it('200 for a media type that the route produces, regardless of its parameters, otherwise 406', async () => {
      assert.equal(await status({ accept: 'text/csv' }, '/file'), 200)
      assert.equal(await status({ accept: 'application/json' }, '/file'), 406)
      for (const accept of ['text/html', 'application/json', 'text/*']) {
        assert.equal(await status({ accept }, '/page'), 200, accept)
      }
      assert.equal(await status({ accept: 'text/csv' }, '/page'), 406)
    })

    it('200 regardless of Accept if the route has the scope `own` or an empty `produces`', async () => {
      assert.equal(await status({ accept: 'text/html' }, '/own'), 200)
      assert.equal(await status({ accept: 'text/html' }, '/probe'), 200)
    })

    it('404, 405 and 401 regardless of Accept; 406 only for an authorized request', async () => {
      assert.equal(await status({ accept: 'text/html' }, '/nothing'), 404)
      assert.equal(await status({ accept: 'text/html' }, '/things', { method: 'PUT' }), 405)
      assert.equal(await status({ accept: 'text/html' }, '/guarded'), 401)
      assert.equal(await status({ accept: 'text/html' }, '/guarded', { token: 'reader' }), 406)
    })
  })

  describe('Accept-Encoding (RFC 9110 §12.5.3)', () => {
    const code = (encoding: string, url?: string) => status({ 'accept-encoding': encoding }, url)
    it('406 if neither uncompressed content nor a supported coding is acceptable', async () => {
      for (const encoding of [
        'identity;q=0',
        '*;q=0',
        'identity;q=0, deflate',
        'br;q=0, *;q=0.0',
        'gzip;q=0,br;q=0,identity; q=0',
      ]) {
        assert.equal(await code(encoding), 406, encoding)
      }
    })

    it('406 for content that is never compressed, if only compressed content is acceptable (T-HTTP-16)', async () => {
      assert.equal(await code('gzip, identity;q=0', '/secret'), 406)
    })

    it('200 if uncompressed content or a supported coding is acceptable', async () => {
      for (const encoding of ['', 'gzip', 'identity', 'identity;q=0.1', '*;q=0, identity', 'deflate', 'x;q=0']) {
        assert.equal(await code(encoding), 200, encoding)
        assert.equal(await code(encoding, '/secret'), 200, encoding)
      }
      assert.equal(await code('identity;q=0, gzip'), 200)
    })

    it('404 and 405 regardless of Accept-Encoding', async () => {
      assert.equal(await code('*;q=0', '/nothing'), 404)
      assert.equal(await status({ 'accept-encoding': '*;q=0' }, '/things', { method: 'PUT' }), 405)
    })
  })
})
