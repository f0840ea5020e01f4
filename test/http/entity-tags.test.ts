import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { matchesTag, parseEntityTags } from '../../src/http/headers/entity-tags.ts'
import { parseHttpDate } from '../../src/http/headers/http-date.ts'
import { cpuMs } from '../support/cpu.ts'

describe('parseEntityTags', () => {
  it('parses any list of tags, even with white space and empty elements (RFC 9110 §5.6.1, §8.8.3)', () => {
    const character = fc.integer({ min: 0x21, max: 0xff }).filter((code) => code !== 0x22 && code !== 0x7f)
    const opaque = fc.array(character).map((codes) => `"${String.fromCharCode(...codes)}"`)
    const tag = fc.record({ opaque, isWeak: fc.boolean() }, { noNullPrototype: true })
    const gap = fc.constantFrom(',', ' , ', ',,', '\t,\t', ', ,')
    fc.assert(
      fc.property(fc.array(tag), gap, (tags, comma) => {
        assert.deepEqual(
          parseEntityTags(tags.map(({ opaque, isWeak }) => (isWeak ? 'W/' : '') + opaque).join(comma)),
          tags,
        )
      }),
    )
  })

  it('takes less than 100 ms of CPU time, including matchesTag, for 16 KiB of hostile input (T-RES-01)', () => {
    const hostile = ['"', 'W/', '"a"', '"a",', ', ', '\t', '*', '"a" ', 'W/"a"\t,'].flatMap((part) => [
      part.repeat(16_384 / part.length),
      `${part.repeat(16_000 / part.length)}!`,
    ])
    for (const value of hostile) {
      const ms = cpuMs(() => {
        parseEntityTags(value)
        matchesTag(value, '"b"', 'weak')
      })
      assert.ok(ms < 100, `${value.slice(0, 10)}… took ${ms} ms`)
    }
  })
})

describe('parseHttpDate', () => {
  it('parses any second from 1970 to 2069 in all three formats (RFC 9110 §5.6.7)', () => {
    const second = fc.integer({ min: 0, max: Date.UTC(2069, 11, 31) / 1_000 })
    const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
    fc.assert(
      fc.property(second, (seconds) => {
        const date = new Date(seconds * 1_000)
        const fixed = date.toUTCString()
        const [, day, month, year, time] = fixed.split(/,? /) as [string, string, string, string, string]
        const long = `${days[date.getUTCDay()]}, ${day}-${month}-${year.slice(2)} ${time} GMT`
        const asctime = `${fixed.slice(0, 3)} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`
        for (const text of [fixed, long, asctime]) assert.equal(parseHttpDate(text), seconds * 1_000, text)
      }),
    )
  })
})
