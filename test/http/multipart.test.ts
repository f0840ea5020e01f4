import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { readForm } from '../../src/http/multipart.ts'

const type = 'multipart/form-data; boundary=--a-b'
const head = (name: string, more = '') => `Content-Disposition: form-data; name="${name}"${more}\r\n`
const content = 'one\r\n--\r\n----a-\r\n--\r\n'
const body = [
  `preamble\r\n----a-b\r\n${head('json')}Content-Type: application/json\r\n\r\n{"a":"ü"}`,
  `\r\n----a-b\r\n${head('scan', '; filename="C:\\\\ü 数 \\".txt"')}\r\n${content}`,
  `\r\n----a-b\r\n${head('empty', "; filename*=UTF-8''%e2%82%ac.txt")}\r\n`,
  '\r\n----a-b--\r\nepilogue\r\n----a-b\r\n',
].join('')
const expected = [
  ['json', 'application/json', '{"a":"ü"}'],
  ['scan', 'text/plain', content],
  ['empty', 'text/plain', ''],
]

/** Reads a body that arrives in chunks; returns the name, type and content of each part. */
async function read(chunks: Iterable<string | Buffer>, header = type, maxParts = 3): Promise<string[][]> {
  const parts: string[][] = []
  const stream = Readable.from(Array.from(chunks, (chunk) => Buffer.from(chunk)))
  for await (const { name, headers, chunks } of readForm({ headers: { 'content-type': header } }, stream, maxParts)) {
    const read = Buffer.concat(await Array.fromAsync(chunks()))
    parts.push([name, headers['content-type'] as string, read.toString()])
  }
  return parts
}

const rejects = (text: string, message: RegExp, header = type, maxParts = 3) =>
  assert.rejects(read([text], header, maxParts), (error: Error) => {
    assert.equal((error as { code?: string }).code, 'INVALID_INPUT')
    assert.match(error.message, message)
    return true
  })

describe('readForm', () => {
  it('returns each part with its headers and content, however the body is split into chunks', async () => {
    const bytes = Buffer.from(body)
    assert.deepEqual(await read([bytes]), expected)
    for (let at = 1; at < bytes.length; at++) {
      assert.deepEqual(await read([bytes.subarray(0, at), bytes.subarray(at)]), expected, `divided at ${at}`)
      assert.deepEqual(
        await read([bytes.subarray(0, at), bytes.subarray(at, at + 1), bytes.subarray(at + 1)]),
        expected,
      )
    }
    assert.deepEqual(await read(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))), expected)
  })

  it('rejects a body that ends before the last boundary, wherever it ends', async () => {
    const bytes = Buffer.from(body)
    const end = bytes.lastIndexOf('----a-b--') + '----a-b--'.length
    assert.deepEqual(await read([bytes.subarray(0, end)]), expected)
    for (let at = 0; at < end; at++)
      await rejects(bytes.subarray(0, at).toString(), /ended before it was complete|more than 3 parts/)
  })

  it('skips the content of parts that are not read', async () => {
    const names: string[] = []
    const stream = Readable.from([Buffer.from(body)])
    for await (const { name } of readForm({ headers: { 'content-type': type } }, stream, 3)) names.push(name)
    assert.deepEqual(names, ['json', 'scan', 'empty'])
  })

  it('rejects malformed parts, and more parts than allowed', async () => {
    const form = (heads: string) => `----a-b\r\n${heads}\r\n\r\ncontent\r\n----a-b--\r\n`
    await rejects(body, /has more than 2 parts/, type, 2)
    await rejects(body, /has no boundary/, 'multipart/form-data')
    await rejects(form('Content-Type: text/plain'), /without Content-Disposition/)
    await rejects(form('Content-Disposition: form-data'), /malformed/)
    await rejects(form('Content-Disposition: form-data; name=""'), /and a name/)
    await rejects(form('Content-Disposition: attachment; name="a"'), /without Content-Disposition: form-data/)
    await rejects(form(`${head('a')}${head('b')}`.trimEnd()), /several headers content-disposition/)
    await rejects(form(`${head('a')}Content-Type: a/b\r\nContent-Type: c/d`), /several headers content-type/)
    await rejects(form(`${head('a')}no colon`), /malformed/)
    await rejects(form(head('a', "; filename*=UTF-8''%ff").trimEnd()), /malformed/)
    await rejects(form(`${head('a')}X: ${'x'.repeat(20_000)}`), /malformed/)
    const incomplete = `----a-b\r\n${head('a')}`
    assert.deepEqual(await read([`${incomplete}----a-b--\r\n`]), [])
    await rejects(form(head('b')).replace('----a-b--', `${incomplete}----a-b--`), /malformed/)
    for (const start of [incomplete, incomplete.trimEnd()])
      await rejects(`${start}\r\n${form(head('b').trimEnd())}`, /without Content-Disposition/)
    await rejects(`${'x'.repeat(100_000)}\r\n`, /ended before/)
  })

  it('rejects if the connection is lost, even while a part is being read', async () => {
    const lost = async function* () {
      yield Buffer.from(body.slice(0, 150))
      throw new Error('lost')
    }
    for (const isRead of [true, false]) {
      const parts = readForm({ headers: { 'content-type': type } }, Readable.from(lost()), 3)
      const all = async () => {
        for await (const { chunks } of parts) if (isRead) await Array.fromAsync(chunks())
      }
      await assert.rejects(all(), /ended before it was complete/)
    }
  })
})
