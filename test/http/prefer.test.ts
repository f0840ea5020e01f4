import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Preferences, parsePrefer } from '../../src/http/headers/prefer.ts'
import { cpuMs } from '../support/cpu.ts'

const cases: [header: string, stated: Preferences][] = [
  ['return=minimal', { return: 'minimal' }],
  ['Return=Minimal', { return: 'minimal' }],
  ['return = "minimal"', { return: 'minimal' }],
  ['return="mini\\mal"', { return: 'minimal' }],
  ['return=representation, return=minimal', { return: 'representation' }],
  ['return=everything, return=minimal', {}],
  ['return', {}],
  ['return=', {}],
  ['return=""', {}],
  ['return; minimal', {}],
  ['foo; return=minimal', {}],
  ['handling=strict, wait=10, count=exact', { handling: 'strict', wait: 10, count: 'exact' }],
  ['handling=lenient;wait=5', { handling: 'lenient' }],
  ['wait=5;x="a, wait=7";y, count=exact', { wait: 5, count: 'exact' }],
  ['wait="5"', { wait: 5 }],
  ['wait=0', { wait: 0 }],
  ['wait=31', { wait: 30 }],
  ['wait=99999999999999999999', { wait: 30 }],
  ['wait=-1', {}],
  ['wait=1.5', {}],
  ['wait=1 2', {}],
  ['wait', {}],
  ['respond-async, foo=bar, handling=strict', { handling: 'strict' }],
  [', ,handling=strict,,', { handling: 'strict' }],
  ['\thandling\t=\tstrict\t', { handling: 'strict' }],
  ['foo="a, return=minimal", wait=1', { wait: 1 }],
  ['foo="a, return=minimal', {}],
  ['foo="a\\", return=minimal", wait=1', { wait: 1 }],
  ['re turn=minimal, wait=1', { wait: 1 }],
  ['=minimal, __proto__=x, constructor=y, wait=1', { wait: 1 }],
  ['', {}],
]

describe('Prefer (RFC 7240 §2)', () => {
  for (const [header, stated] of cases) {
    it(`${JSON.stringify(header)} parses to ${JSON.stringify(stated)}`, () => {
      assert.deepEqual(JSON.parse(JSON.stringify(parsePrefer(header))), stated)
    })
  }

  it('is parsed in less than 100 ms of CPU time, even if 16 KiB long and hostile', () => {
    const hostile = [' ', ';', '"', '\\', ',', 'a=', '="', 'a ;', '"a\\'].map((text) =>
      text.repeat(16_384 / text.length),
    )
    for (const header of hostile) {
      const ms = cpuMs(() => parsePrefer(`a${header}!`))
      assert.ok(ms < 100, `${header.slice(0, 10)}… took ${ms} ms`)
    }
  })
})
