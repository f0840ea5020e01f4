import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { problems, problemUrl } from '../../src/http/problem.ts'
import { problemPages } from '../../src/http/problem-pages.ts'
import { baseUrl, type Mounted, mount, send } from './support.ts'

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

describe('GET /problems/{code}', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['bodies', 'caching', 'conditional'], (app) => app.register(problemPages, { baseUrl }))
  })
  after(() => mounted.app.close())

  const get = (name: string, accept?: string, headers: Record<string, string> = {}) =>
    send(mounted, { url: `/problems/${name}`, headers: { ...headers, ...(accept && { accept }) } })

  const codes = Object.keys(problems) as (keyof typeof problems)[]
  for (const code of codes) {
    const [status, title] = problems[code]
    it(`200 and a page at the type of ${code}`, async () => {
      const answer = await send(mounted, { url: problemUrl('', code), headers: { accept: browser } })
      assert.equal(answer.statusCode, 200)
      assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8')
      for (const text of [`<h1>${title}</h1>`, String(status), code]) assert.ok(answer.body.includes(text), text)
      assert.match(answer.body, /<p>[A-Z][^<]+\.<\/p>\s+<h2>What to do<\/h2>\s+<p>[A-Z][^<]+\.<\/p>/)
    })
  }

  it('200 with what the policy default-src none allows, and nothing else', async () => {
    const { body } = await get('auth-required', browser)
    assert.doesNotMatch(body, /<(script|style|link|img|iframe)|\s(style|src|on\w+)=/)
  })

  for (const accept of ['application/json', 'application/json, text/html;q=0.5', 'application/*']) {
    it(`200 as JSON for Accept: ${accept}`, async () => {
      const answer = await get('resource-not-found', accept)
      assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
      assert.deepEqual(answer.json(), {
        type: `${baseUrl}/problems/resource-not-found`,
        title: problems.RESOURCE_NOT_FOUND[1],
        status: 404,
        errorCode: 'RESOURCE_NOT_FOUND',
      })
    })
  }

  for (const accept of [undefined, '*/*', 'text/html', 'text/*, application/json', browser]) {
    it(`200 as a page for ${accept ? `Accept: ${accept}` : 'no Accept'}`, async () => {
      assert.match(String((await get('resource-not-found', accept)).headers['content-type']), /^text\/html/)
    })
  }

  it('200 that shared caches keep apart by Accept, then 304', async () => {
    const first = await get('auth-required', browser)
    assert.equal(first.headers['cache-control'], 'public, max-age=60, must-revalidate')
    assert.equal(first.headers.vary, 'Accept, Accept-Encoding, Authorization, X-API-Key')
    const etag = String(first.headers.etag)
    assert.equal((await get('auth-required', browser, { 'if-none-match': etag })).statusCode, 304)
    assert.equal((await get('auth-required', 'application/json', { 'if-none-match': etag })).statusCode, 200)
  })

  for (const name of ['unknown', 'AUTH_REQUIRED', 'auth_required', 'Auth-Required', 'constructor', '__proto__']) {
    it(`404 for ${name}`, async () => {
      const answer = await get(name, browser)
      assert.equal(answer.statusCode, 404)
      assert.equal(answer.json().errorCode, 'RESOURCE_NOT_FOUND')
    })
  }
})
