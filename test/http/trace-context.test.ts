import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { childTrace, traceHeaders, traceOf } from '../../src/http/headers/trace-context.ts'
import { type Mounted, mount, send, sendRaw } from './support.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const parent = `00-${traceId}-${parentId}-01`

describe('the traceparent header', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['accessLog', 'errorHandler', 'authorize', 'methods'], (app) => {
      app.get('/things', { config: { scope: 'public' } }, async (request) => ({ trace: request.trace }))
      app.get('/broken', { config: { scope: 'public' } }, async () => {
        throw new Error('broken')
      })
    })
  })
  beforeEach(() => mounted.lines.splice(0))
  after(() => mounted.app.close())
  const traceIdFor = async (headers: Record<string, string>) => {
    await send(mounted, { url: '/things', headers })
    return mounted.lines.at(-1)?.traceId
  }

  it('adds the trace id to the request’s log line, even for an error', async () => {
    assert.equal(await traceIdFor({ traceparent: parent }), traceId)
    await send(mounted, { url: '/nothing', headers: { traceparent: parent } })
    assert.deepEqual([mounted.lines.at(-1)?.status, mounted.lines.at(-1)?.traceId], [404, traceId])
    assert.equal(await traceIdFor({}), undefined)
  })

  const accepted: [what: string, value: string][] = [
    ['a trace that is not sampled', `00-${traceId}-${parentId}-00`],
    ['flags that are not defined yet', `00-${traceId}-${parentId}-ff`],
    ['a later version of the same length', `cc-${traceId}-${parentId}-01`],
    ['a later version with more fields', `01-${traceId}-${parentId}-01-what-the-future-will-be`],
  ]
  for (const [what, value] of accepted) {
    it(`is accepted with ${what}`, async () => assert.equal(await traceIdFor({ traceparent: value }), traceId))
  }

  const ignored: [what: string, value: string][] = [
    ['an empty value', ''],
    ['a value in another format', 'trace-0001'],
    ['the version ff', `ff-${traceId}-${parentId}-01`],
    ['a version in upper case', `0A-${traceId}-${parentId}-01`],
    ['a trace id of zeros', `00-${'0'.repeat(32)}-${parentId}-01`],
    ['a parent id of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['a trace id in upper case', `00-${traceId.toUpperCase()}-${parentId}-01`],
    ['a short trace id', `00-${traceId.slice(1)}-${parentId}-01`],
    ['a long trace id', `00-${traceId}0-${parentId}-01`],
    ['a short parent id', `00-${traceId}-${parentId.slice(1)}-01`],
    ['flags that are not hexadecimal', `00-${traceId}-${parentId}-0x`],
    ['more fields in version 00', `00-${traceId}-${parentId}-01-00`],
    ['a trailing hyphen in version 00', `00-${traceId}-${parentId}-01-`],
    ['other text after a later version', `01-${traceId}-${parentId}-01.00`],
    ['other separators', `00_${traceId}_${parentId}_01`],
    ['quotes after the flags', `00-${traceId}-${parentId}-01", "x": "`],
  ]
  for (const [what, value] of ignored) {
    it(`is ignored with ${what}`, async () => assert.equal(await traceIdFor({ traceparent: value }), undefined))
  }

  it('is ignored if it is sent twice', async () => {
    const line = `traceparent: ${parent}`
    const head = ['GET /things HTTP/1.1', 'Host: plinth.test', 'X-Forwarded-Proto: https', 'Connection: close']
    await sendRaw(mounted, [...head, line, line])
    assert.deepEqual([mounted.lines.at(-1)?.status, mounted.lines.at(-1)?.traceId], [200, undefined])
  })
})

describe('the tracestate header', () => {
  const stateOf = (tracestate: string) => {
    const trace = traceOf({ traceparent: parent, tracestate })
    return trace === null ? null : (traceHeaders(trace).tracestate ?? null)
  }
  const longest = `a=${'x'.repeat(250)},b=${'y'.repeat(250)},c=abcd`.padEnd(512, 'z')

  for (const state of ['rojo=00f067aa0ba902b7', 'a=1, b=2,,c@d=3', '0tenant@sys=a b', 'k_-*/9=~!', longest]) {
    it(`is passed on unchanged: ${state.slice(0, 30)}`, () => assert.equal(stateOf(state), state))
  }

  const many = Array.from({ length: 33 }, (_, n) => `k${n}=v`).join(',')
  for (const state of [
    '',
    ',',
    'A=1',
    '1=2',
    'a=',
    'a=b=c',
    'a',
    'a=\u00e9',
    'a=x\r\nb: c',
    'a b=1',
    many,
    `${longest}z`,
  ]) {
    it(`is dropped if invalid, without dropping the trace id: ${JSON.stringify(state.slice(0, 30))}`, () => {
      assert.equal(stateOf(state), null)
      assert.ok(traceOf({ traceparent: parent, tracestate: state }))
    })
  }

  it('is ignored without traceparent', () => assert.equal(traceOf({ tracestate: 'a=1' }), null))
})

describe('the outgoing trace context', () => {
  it('has the same trace id, sampled flag and state, and a new parent id that is not all zeros', () => {
    const trace = traceOf({ traceparent: `cc-${traceId}-${parentId}-07-more`, tracestate: 'a=1' }) as string
    const random = (size: number) => Buffer.alloc(size, 0xab)
    assert.deepEqual(traceHeaders(childTrace(trace, random)), {
      traceparent: `00-${traceId}-${'ab'.repeat(8)}-01`,
      tracestate: 'a=1',
    })
    assert.match(
      childTrace(trace, (size) => Buffer.alloc(size)),
      /-0{15}1-01 a=1$/,
    )
  })
})
