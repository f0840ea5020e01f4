import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { pageFrame } from '../../src/http/pages/layout.ts'
import { problems, problemUrl } from '../../src/http/problems/problem.ts'
import { problemPages } from '../../src/http/problems/problem-pages.ts'
import { baseUrl, type Mounted, mount, send } from './support.ts'

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

describe('GET /problems/{code}', () => {
  let mounted: Mounted
  before(async () => {
    const frame = pageFrame({ productName: 'Shelves', accentColor: '#2552c8' })
    mounted = await mount(['contentNegotiation', 'bodyParsing', 'caching', 'conditional'], (app) =>
      app.register(problemPages, { baseUrl, frame }),
    )
  })
  after(() => mounted.app.close())

  const get = (name: string, accept?: string, headers: Record<string, string> = {}) =>
    send(mounted, { url: `/problems/${name}`, headers: { ...headers, ...(accept && { accept }) } })

  const codes = Object.keys(problems) as (keyof typeof problems)[]
  for (const code of codes) {
    const [status, title] = problems[code]
    it(`200 with a page at the type URL of ${code}`, async () => {
      const answer = await send(mounted, { url: problemUrl('', code), headers: { accept: browser } })
      assert.equal(answer.statusCode, 200)
      assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8')
      for (const text of [`<h1>${title}</h1>`, String(status), code]) assert.ok(answer.body.includes(text), text)
      assert.match(answer.body, /<p>[A-Z][^<]+\.<\/p>\s+<h2>What to do<\/h2>\s+<p>[A-Z][^<]+\.<\/p>/)
      const example = /<pre tabindex="0">([^<]+)<\/pre>/.exec(answer.body)?.[1]?.replaceAll('&quot;', '"') ?? ''
      const [head = '', body = ''] = example.split('\n\n')
      assert.ok(head.startsWith(`HTTP/1.1 ${status}\n`), head)
      const { error, errorCode, type } = JSON.parse(body)
      if (code === 'RATE_LIMIT_EXCEEDED' || code === 'QUOTA_EXCEEDED') assert.equal(typeof error, 'string')
      else assert.deepEqual([errorCode, type], [code, problemUrl(baseUrl, code)])
      assert.match(answer.body, /<a href="\/problems">.*<a href="\/docs">/)
    })
  }

  it('200 with a CSP that allows only one style sheet, identified by its hash', async () => {
    for (const name of ['', '/auth-required']) {
      const answer = await send(mounted, { url: `/problems${name}`, headers: { accept: browser } })
      const policy = String(answer.headers['content-security-policy'])
      const style = /<style>(.*?)<\/style>/s.exec(answer.body)?.[1] ?? ''
      assert.ok(policy.startsWith(`default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}';`), policy)
      assert.doesNotMatch(answer.body, /<(script|link|img|iframe)|\s(style|src|on\w+)=/)
      assert.match(answer.body, /Shelves/)
    }
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

  it('200 with Vary: Accept; the page’s ETag yields a 304 for the page, but a 200 for JSON', async () => {
    const first = await get('auth-required', browser)
    assert.equal(first.headers['cache-control'], 'public, max-age=60, must-revalidate')
    assert.equal(first.headers.vary, 'Accept, Accept-Encoding, Authorization, X-API-Key')
    const etag = String(first.headers.etag)
    assert.equal((await get('auth-required', browser, { 'if-none-match': etag })).statusCode, 304)
    assert.equal((await get('auth-required', 'application/json', { 'if-none-match': etag })).statusCode, 200)
  })

  for (const name of ['unknown', 'AUTH_REQUIRED', 'auth_required', 'Auth-Required', 'constructor', '__proto__']) {
    it(`404 for /problems/${name}`, async () => {
      const answer = await get(name, browser)
      assert.equal(answer.statusCode, 404)
      assert.equal(answer.json().errorCode, 'RESOURCE_NOT_FOUND')
    })
  }
})

describe('GET /problems', () => {
  let mounted: Mounted
  before(async () => {
    const frame = pageFrame({ productName: 'Plinth', accentColor: '#2552c8' })
    mounted = await mount(['contentNegotiation', 'bodyParsing', 'caching', 'conditional'], (app) =>
      app.register(problemPages, { baseUrl, frame }),
    )
  })
  after(() => mounted.app.close())
  const get = (accept: string) => send(mounted, { url: '/problems', headers: { accept } })

  it('200 with a page that links to every code and to the API reference', async () => {
    const { statusCode, headers, body } = await get(browser)
    assert.deepEqual([statusCode, headers['content-type']], [200, 'text/html; charset=utf-8'])
    const links = [...body.matchAll(/<a href="([^"]+)">/g)].map(([, target]) => target)
    const codes = Object.keys(problems) as (keyof typeof problems)[]
    assert.deepEqual(links, [...codes.map((code) => problemUrl('', code)), '/docs'])
  })

  it('200 as JSON for Accept: application/json', async () => {
    const answer = await get('application/json')
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
    assert.equal(answer.json().length, Object.keys(problems).length)
    for (const { type, title, status, errorCode } of answer.json()) {
      assert.deepEqual([status, title], problems[errorCode as keyof typeof problems])
      assert.equal(type, problemUrl(baseUrl, errorCode))
    }
  })

  it('406 for Accept: image/png', async () => {
    assert.equal((await get('image/png')).statusCode, 406)
  })
})
