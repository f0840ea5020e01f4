import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { onSqlite } from '../support/engines.ts'
import { type ServicePair, servicePair } from '../support/service-pair.ts'
import { ending, lifecyclesOf } from '../support/version-lifecycles.ts'

/** Set SEED to reproduce a failed run. */
const seed = Number(process.env.SEED ?? 20_261_123)
const steps = 2_500

const everything = ['users:read', 'users:write', 'products:write', 'books:write']
const names = ['alice', 'bob', 'carol']

type Step =
  | { do: 'read'; requests: Asked[]; connection: number }
  | { do: 'write'; method: 'POST' | 'PUT' | 'DELETE'; path: string; payload?: object }
  | { do: 'pass'; ms: number }
  | { do: 'forget' }
  | { do: 'token'; name: string; scopes: string[] | null | 'revoked' }

/** A request. `tag` is the value of If-None-Match, in which `@` stands for the last entity tag of the same target. */
interface Asked {
  method: string
  path: string
  version: string
  fields: string[]
  tag: string | null
  protocol: string
}

const weighted = <T>(...choices: [weight: number, value: T][]) =>
  fc.oneof(...choices.map(([weight, value]) => ({ weight, arbitrary: fc.constant(value) })))

const choice = ([weight, value]: (number | string)[]): [number, string] => [Number(weight), String(value)]

const id = fc.integer({ min: 1, max: 6 })
const row = fc.tuple(weighted([8, '/products/'], [4, '/books/'], [1, '/users/']), id).map((parts) => parts.join(''))
const list = fc
  .tuple(
    weighted([4, '/products'], [2, '/books'], [1, '/users']),
    weighted(
      ...[
        [30, '?limit=2'],
        [20, ''],
        [5, '?sort=name&limit=3'],
        [2, '?limit=2&x=1'],
        [1, '?fields=id'],
      ].map(choice),
      ...[
        [1, '?limit=0'],
        [1, '?access_token=x'],
        [1, '?limit=%'],
        [1, '?genre=a&limit=2'],
        [1, '?q=pen'],
      ].map(choice),
    ),
  )
  .map((parts) => parts.join(''))
const odd = fc.constantFrom(
  ...[
    '/products/01',
    '/products/1/',
    '/products/1?x=1',
    '/products/1?fields=id',
    '/products/99',
    '/products/9999999999',
  ],
  ...[
    '/products/%31',
    '/%70roducts/1',
    '//products/1',
    '/products/1#a',
    '/products/',
    '/products/1/x',
    '/livez',
    '/nowhere',
  ],
  ...[
    'https://plinth.test/products/1',
    '/products/1;a',
    '/api/usage',
    '/api/deleted/products',
    '/products/-1',
    '/products/1.0',
  ],
)
const path = fc.oneof({ weight: 24, arbitrary: row }, { weight: 8, arbitrary: list }, { weight: 1, arbitrary: odd })

const credential = weighted<string[]>(
  ...names.map((name): [number, string[]] => [5, [`Authorization: Bearer ${name}`]]),
  [3, []],
  [1, ['Authorization: Bearer mallory']],
  [1, ['authorization: bearer alice']],
  [1, ['Authorization: Basic YTpi']],
)
const usual = weighted<string[]>(
  [12, []],
  ...([
    [2, ['Accept: application/json']],
    [2, ['Accept: */*']],
    [2, ['User-Agent: one/1.0']],
  ] as [number, string[]][]),
  ...([
    [2, ['Accept-Encoding: gzip, br']],
    [1, ['Accept-Encoding: identity']],
  ] as [number, string[]][]),
  ...([
    [2, ['X-Request-Id: request-0001']],
    [2, ['X-Request-Id: bad id']],
  ] as [number, string[]][]),
  ...([
    [2, ['Origin: https://app.test']],
    [2, ['Origin: https://evil.test']],
  ] as [number, string[]][]),
  ...([
    [2, ['X-Forwarded-For: 203.0.113.7']],
    [2, ['X-Forwarded-For: 203.0.113.8, 127.0.0.1']],
  ] as [number, string[]][]),
  ...([
    [2, ['X-API-Key: key-one']],
    [2, ['X-API-Key: nothing']],
  ] as [number, string[]][]),
)
const unusual = weighted<string[]>(
  ...['Accept: text/html', 'Accept-Encoding: identity;q=0', 'Accept-Encoding: *;q=0', 'X-Unknown: 1'].map(one),
  ...['If-Modified-Since: Sun, 01 Mar 2026 12:00:00 GMT', 'If-Match: "1"', 'If-Match: "9"', 'Range: bytes=0-1'].map(
    one,
  ),
  ...['If-Unmodified-Since: Sun, 01 Mar 2020 12:00:00 GMT', 'Prefer: count=exact', 'Prefer: handling=strict'].map(one),
  ...['Connection: close', 'Content-Length: 0', 'Expect: 100-continue', 'Expect: nothing', 'traceparent: nothing'].map(
    one,
  ),
  ...['Cookie: a=b', 'Host: twice', 'tracestate: a=b'].map(one),
  ...['X-Forwarded-Proto: http', 'If-None-Match: "1"', 'Upgrade: h2c', 'Transfer-Encoding: chunked, x'].map(one),
)
function one(field: string): [number, string[]] {
  return [1, [field]]
}
/** Header fields that many requests share, because real clients repeat the same header section. */
const repeated = weighted<string[]>(
  [4, ['Authorization: Bearer alice', 'Accept: */*']],
  [3, ['Authorization: Bearer bob', 'Accept-Encoding: gzip, br', 'X-Request-Id: request-0001']],
  [2, ['Accept: application/json', 'Origin: https://app.test']],
  [1, ['Authorization: Bearer carol', 'X-Forwarded-For: 203.0.113.7']],
  [1, ['Authorization: Bearer alice', 'X-API-Key: key-one']],
  [
    1,
    ['X-API-Key: key-two', 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'tracestate: a=b'],
  ],
  [
    1,
    ['X-API-Key: key-two', 'traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00', 'tracestate: a=c'],
  ],
)
const random = fc.tuple(credential, usual, fc.oneof({ weight: 3, arbitrary: fc.constant<string[]>([]) }, unusual))
const fields = fc.oneof(
  { weight: 24, arbitrary: repeated },
  random.map((parts) => parts.flat()),
)

const asked: fc.Arbitrary<Asked> = fc.record({
  method: weighted([80, 'GET'], [1, 'HEAD'], [1, 'OPTIONS']),
  path,
  version: weighted([10, ''], [1, '/v1'], [20, '/v2'], [1, '/v0']),
  fields,
  tag: weighted([120, null], [40, '@'], [1, '*'], [1, '"7"'], [1, '@, "x"'], [1, 'W/"a"'], [1, 'bad'], [1, '"1-br"']),
  protocol: weighted([80, '1.1'], [1, '1.0']),
})

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 200,
    arbitrary: fc.record({
      do: fc.constant('read' as const),
      connection: fc.integer({ min: 1, max: 3 }),
      requests: fc.oneof(
        { weight: 20, arbitrary: fc.array(asked, { minLength: 1, maxLength: 1 }) },
        { weight: 1, arbitrary: fc.array(asked, { minLength: 2, maxLength: 4 }) },
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom('products', 'books'), fc.constantFrom('POST', 'PUT', 'DELETE'), id, fc.nat(999))
      .map(([of, method, row, n]): Step => {
        const payload = of === 'products' ? { name: `Pén ${n}`, price: n } : { title: `T ${n}`, author: 'A'.repeat(n) }
        if (method === 'POST') return { do: 'write', method, path: `/${of}`, payload }
        if (method === 'PUT') return { do: 'write', method, path: `/${of}/${row}`, payload }
        return { do: 'write', method: 'DELETE', path: `/${of}/${5 + (n % 3)}` }
      }),
  },
  { weight: 2, arbitrary: fc.constantFrom(100, 1_000, 15_000, 70_000).map((ms): Step => ({ do: 'pass', ms })) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'forget' }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('token' as const),
      name: fc.constantFrom(...names),
      scopes: weighted<string[] | null | 'revoked'>([10, everything], [1, ['books:write']], [1, null], [1, 'revoked']),
    }),
  },
)

/** The services' settings. The fast path must serve more than `minShare` of the requests with a token. */
const cases = {
  'limits that are reached': {
    settings: {
      rules: {
        general: { calls: 150, seconds: 60 },
        anonymous: { calls: 60, seconds: 30 },
        throttle: { calls: 100, seconds: 1, burst: 10_000 },
        quotas: { requests: 1_200, reports: null },
      },
    },
    minShare: 0.2,
  },
  'no limits, other origins and private reads': {
    settings: { corsOrigins: ['https://app.test'], publicRead: false },
    minShare: 0.3,
  },
  'a deprecated and a retired version': {
    settings: { lifecycles: lifecyclesOf(ending), rules: { general: { calls: 5_000, seconds: 60 } } },
    minShare: 0.2,
  },
}

for (const [title, { settings, minShare }] of Object.entries(cases)) {
  onSqlite((engine) => {
    describe(`responses of the fast path, with ${title} (seed ${seed})`, () => {
      let pair: ServicePair
      before(async () => {
        pair = await servicePair(engine, settings)
        for (const name of [...names, 'writer']) pair.tokens.set(name, everything)
        for (const n of [1, 2, 3, 4, 5]) {
          const [pen, book] = [
            { name: `Pen ${n}`, price: n },
            { title: `Book ${n}`, author: 'Ada', genre: 'a' },
          ]
          const user = { name: `User ${n}`, email: `user${n}@example.com` }
          for (const [url, payload] of Object.entries({ '/products': pen, '/books': book, '/users': user }))
            await pair.inject({ method: 'POST', url, token: 'writer', payload })
        }
      })
      after(() => pair.close())

      const tags = new Map<string, string>()
      const textOf = ({ method, path, version, fields, tag, protocol }: Asked) => {
        const target = path.startsWith('/') ? version + path : path
        const condition = tag && `If-None-Match: ${tag.replace('@', tags.get(target) ?? '"0"')}`
        const all = ['Host: plinth.test', 'X-Forwarded-Proto: https', ...fields, ...(condition ? [condition] : [])]
        return `${method} ${target} HTTP/${protocol}\r\n${all.join('\r\n')}\r\n\r\n`
      }
      const rememberTag = (request: string, response: string) => {
        const [, target = ''] = request.split(' ')
        const [, tag] = /\r\netag: ([^\r\n]*)/.exec(response) ?? []
        if (tag) tags.set(target, tag)
      }
      const run = async (step: Step) => {
        if (step.do === 'pass') pair.pass(step.ms)
        else if (step.do === 'forget') pair.forget()
        else if (step.do === 'write') {
          const { method, path: url, payload } = step
          await pair.inject({ method, url, token: 'writer', ...(payload && { payload }) })
        } else if (step.do === 'token') {
          if (step.scopes === 'revoked') pair.tokens.delete(step.name)
          else pair.tokens.set(step.name, step.scopes)
          pair.forget()
        } else {
          const requests = step.requests.map(textOf)
          const [fast, full] = await pair.send(step.connection, ...requests)
          assert.deepEqual(fast, full, requests.join(''))
          assert.ok(fast.length > 0, requests.join(''))
          rememberTag(requests[0] as string, fast[0] as string)
        }
      }

      it('equal the policies’ responses byte for byte, with the same log lines and counts of deprecated calls', async () => {
        for (const one of fc.sample(step, { numRuns: steps, seed })) await run(one)
        const [fast, full] = pair.lines()
        assert.deepEqual(fast, full)
        assert.deepEqual(pair.fast.deprecated, pair.full.deprecated)
        assert.ok(fast.length > steps / 2)
      })

      it('make up the required share of the responses to requests with a token', () => {
        const share = 1 - pair.fast.verifier.count() / pair.full.verifier.count()
        assert.ok(share > minShare, `${share}`)
      })
    })
  })
}
