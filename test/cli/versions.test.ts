import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { eventually, type RealService, realService } from '../support/service.ts'
import { ending } from '../support/version-lifecycles.ts'
import { ended, killAll, newPlace, plinth } from './support.ts'

const sunset = 'Wed, 01 Dec 2027 00:00:00 GMT'
const headersOf = ({ headers }: { headers: Record<string, unknown> }) => [
  headers.deprecation,
  headers.sunset,
  headers.link,
]
const v1Ends = (path: string) => ['true', sunset, `</v2${path}>; rel="successor-version"`]

describe('plinth serve with PLINTH_VERSIONS', () => {
  let service: RealService
  const env = () => ({ PLINTH_DATA_DIR: service.dataDir, PLINTH_VERSIONS: ending })
  before(async () => {
    service = await realService({ PLINTH_VERSIONS: ending })
    await service.start()
  })
  after(async () => {
    killAll()
    await service.remove()
  })

  for (const [prefix, ends] of [
    ['/v1', true],
    ['', true],
    ['/v2', false],
  ] as const) {
    it(`links of a report requested ${prefix ? `under ${prefix} have that prefix` : 'without a prefix have none'}`, async () => {
      const body = { reportType: 'books', format: 'csv' }
      const accepted = await service.call('POST', `${prefix}/api/reports`, { body })
      assert.equal(accepted.status, 202)
      const place = `${prefix}/api/reports/${accepted.json().taskId}`
      assert.equal(accepted.headers.location, `${place}/status`)
      if (ends) assert.deepEqual(headersOf(accepted), v1Ends('/api/reports'))
      else assert.deepEqual(headersOf(accepted), [undefined, undefined, undefined])
      const done = await eventually('it is completed', async () => {
        const status = await service.call('GET', String(accepted.headers.location), { headers: { prefer: 'wait=10' } })
        return status.json().status === 'completed' && status
      })
      assert.equal(done.json().resultUrl, `${place}/download`)
      for (const { href } of Object.values<{ href: string }>(done.json()._links))
        assert.ok(href.startsWith(place), href)
      const part = await service.call('GET', done.json().resultUrl, { headers: { range: 'bytes=0-3' } })
      assert.equal(part.status, 206)
      const [, , link] = headersOf(part)
      assert.equal(link, ends ? v1Ends(`${place.slice(prefix.length)}/download`)[2] : undefined)
    })
  }

  it('410 for the retired version, 404 for an unknown version', async () => {
    const gone = await service.call('GET', '/v0/products?limit=1')
    assert.deepEqual([gone.status, gone.json().errorCode], [410, 'VERSION_RETIRED'])
    assert.equal(gone.headers.link, '</v1/products>; rel="successor-version"')
    assert.equal((await service.call('GET', '/v3/products')).status, 404)
  })

  it('`plinth versions` lists each version and the clients that call the deprecated one', async () => {
    await service.call('GET', '/v1/nothing', { headers: { authorization: 'Basic x' } })
    const views = await eventually('the calls are saved', async () => {
      const { items } = (await service.call('GET', '/v2/api/versions')).json()
      return items[1].clients.length === 2 && items
    })
    const [text, json] = await Promise.all([[], ['--json']].map((more) => ended(plinth(['versions', ...more], env()))))
    assert.deepEqual([text?.code, text?.stderr], [0, ''])
    const stdout = String(text?.stdout)
    assert.match(
      stdout,
      new RegExp(
        [
          '^version {2}status {6}deprecated {2}sunset {6}successor',
          'v0 {7}retired {5}- {11}- {11}v1',
          'v1 {7}deprecated {2}2026-12-01 {2}2027-12-01 {2}v2',
          'v2 {7}active {6}- {11}- {11}-',
          '',
          'Clients that have called v1 since its deprecation, most recent first:',
          'client {7}calls {2}last call',
        ].join('\\n'),
      ),
    )
    assert.match(stdout, /\nboot {9}\d+ {2,}\d{4}-\d\d-\d\dT[\d:.]+Z\n/)
    assert.match(stdout, /\n\(no client\) {2}1 {6}\d{4}-/)
    assert.deepEqual(JSON.parse(String(json?.stdout)), views)
  })
})

describe('an invalid PLINTH_VERSIONS', () => {
  it('exit code 2 and the setting’s name, before any file is created', async (t) => {
    const { dataDir, env, remove } = await newPlace()
    t.after(remove)
    const wrong: [command: string, value: string, RegExp][] = [
      ['versions', '{"v1"', /^plinth: PLINTH_VERSIONS=\{"v1" is not valid: expected JSON/],
      [
        'serve',
        '{"v7":{"status":"active"}}',
        /^plinth: PLINTH_VERSIONS is not valid: expected only versions that the service defines/,
      ],
    ]
    const ends = wrong.map(([command, value]) => ended(plinth([command], { ...env, PLINTH_VERSIONS: value })))
    for (const [index, { code, stdout, stderr }] of (await Promise.all(ends)).entries()) {
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, wrong[index]?.[2] as RegExp)
    }
    assert.deepEqual(readdirSync(dataDir), [])
  })
})
