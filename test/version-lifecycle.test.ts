import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { builtIn } from '../src/catalog/service.ts'
import { readConfig } from '../src/config/config.ts'
import { versionLifecycles } from '../src/version-lifecycle.ts'

const lifecyclesOf = (text?: string) =>
  versionLifecycles(builtIn, readConfig(text === undefined ? {} : { PLINTH_VERSIONS: text }).versions.plans)
const deprecated = { status: 'deprecated', deprecatedAt: '2026-12-01', sunsetAt: '2027-12-01' }
const parsed = (text?: string) =>
  lifecyclesOf(text).map(({ version, status, successor }) => [version, status, successor])

describe('PLINTH_VERSIONS', () => {
  it('leaves every version active if unset or empty', () => {
    for (const text of [undefined, '', '{}']) {
      assert.deepEqual(parsed(text), [
        ['v1', 'active', null],
        ['v2', 'active', null],
      ])
    }
  })

  it('sets the lifecycle of each version, with dates (midnight UTC) or date-times with an offset', () => {
    const v1 = { ...deprecated, deprecatedAt: '2026-12-01T02:00+02:00', successor: 'v2' }
    const [life] = lifecyclesOf(JSON.stringify({ v1, v2: { status: 'active' } }))
    assert.deepEqual(life, {
      ...{ version: 'v1', status: 'deprecated', successor: 'v2', deprecation: 'true' },
      ...{ deprecatedAt: '2026-12-01T00:00:00.000Z', sunsetAt: '2027-12-01T00:00:00.000Z' },
      bare: ['api', 'users', 'products', 'books'],
    })
  })

  it('uses the newest active version as the default successor', () => {
    const all = { v0: { status: 'retired' }, v1: deprecated }
    assert.deepEqual(parsed(JSON.stringify(all)), [
      ['v0', 'retired', 'v2'],
      ['v1', 'deprecated', 'v2'],
      ['v2', 'active', null],
    ])
    const withdrawn = { v2: { status: 'retired' } }
    assert.deepEqual(parsed(JSON.stringify(withdrawn)).at(-1), ['v2', 'retired', 'v1'])
  })

  const wrong: [what: string, text: string | object, expected: RegExp][] = [
    [
      'text that is not JSON',
      '{v1:deprecated}',
      /PLINTH_VERSIONS=\{v1:deprecated\} is not valid: expected JSON such as \{"v1"/,
    ],
    ['a list', '[]', /expected a JSON object such as/],
    ['null', 'null', /expected a JSON object such as/],
    ['an invalid name', { beta: { status: 'active' } }, /expected names of versions such as v1 \(beta is none\)/],
    ['a name with a leading zero', { v01: { status: 'retired' } }, /v01 is none/],
    ['a lifecycle that is not an object', { v1: 'deprecated' }, /expected an object with the status of v1/],
    ['an unknown status', { v1: { status: 'old' } }, /expected a status of v1: active, deprecated, retired/],
    ['a missing status', { v1: {} }, /expected a status of v1/],
    ['an unknown member', { v1: { ...deprecated, sunset: '2027-01-01' } }, /only status, .* of v1, not sunset/],
    [
      'an invalid date',
      { v1: { ...deprecated, sunsetAt: '2027-02-30' } },
      /a date such as 2027-12-01 as sunsetAt of v1/,
    ],
    ['an invalid hour', { v1: { ...deprecated, sunsetAt: '2027-02-01T24:00:00Z' } }, /as sunsetAt of v1/],
    ['a date in words', { v1: { ...deprecated, deprecatedAt: 'tomorrow' } }, /as deprecatedAt of v1/],
    [
      'a date without a time zone',
      { v1: { ...deprecated, deprecatedAt: '2026-12-01T10:00' } },
      /as deprecatedAt of v1/,
    ],
    ['a date that is a number', { v1: { ...deprecated, sunsetAt: 1_796_083_200 } }, /as sunsetAt of v1/],
    [
      'a deprecated version without dates',
      { v1: { status: 'deprecated', sunsetAt: '2027-12-01' } },
      /deprecatedAt and sunsetAt of v1/,
    ],
    [
      'a sunset before the deprecation',
      { v1: { ...deprecated, sunsetAt: '2026-11-30' } },
      /a sunsetAt of v1 that is not before/,
    ],
    ['dates for an active version', { v1: { ...deprecated, status: 'active' } }, /no dates and no successor of v1/],
    ['an invalid successor', { v1: { ...deprecated, successor: 'next' } }, /a version such as v2 as successor of v1/],
    [
      'an active version that is not served',
      { v3: { status: 'active' } },
      /only versions that the service defines \(v1, v2\) or retired ones, not v3/,
    ],
    ['a deprecated version that is not served', { v0: deprecated }, /or retired ones, not v0/],
    [
      'a successor that is not served',
      { v1: { ...deprecated, successor: 'v3' } },
      /a successor of v1 that is not retired/,
    ],
    [
      'a successor that is retired',
      { v0: { status: 'retired', successor: 'v1' }, v1: { status: 'retired' } },
      /a successor of v0/,
    ],
    ['a version as its own successor', { v1: { ...deprecated, successor: 'v1' } }, /a successor of v1/],
    [
      'circular successors',
      { v1: { ...deprecated, successor: 'v2' }, v2: { ...deprecated, successor: 'v1' } },
      /a successor of v1/,
    ],
    [
      'a definition without an active version',
      { v1: { status: 'retired' }, v2: { status: 'retired' } },
      /a successor of v1/,
    ],
  ]
  for (const [what, text, expected] of wrong) {
    it(`rejects ${what} with exit code 2 and an error that names the setting`, () => {
      assert.throws(
        () => lifecyclesOf(typeof text === 'string' ? text : JSON.stringify(text)),
        (error: Error & { exitCode?: number }) => {
          assert.match(error.message, /^PLINTH_VERSIONS(=.*)? is not valid: expected /)
          assert.match(error.message, expected)
          return error.exitCode === 2
        },
      )
    })
  }
})
