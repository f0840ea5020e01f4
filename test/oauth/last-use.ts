import assert from 'node:assert/strict'
import type { LightMyRequestResponse as Response } from 'fastify'

interface UsedRow {
  send: (method: string, url: string, payload?: object, headers?: Record<string, string>) => Promise<Response>
  /** The path of the row, as in a request. */
  url: string
  /** Sets the row's `lastUsedAt`. */
  useAt: (lastUsedAt: string) => Promise<unknown>
}

/** Asserts that each use of a row changes its ETag, and that a write accepts an earlier ETag of the same revision. */
export async function assertTagsOfUses({ send, url, useAt }: UsedRow): Promise<void> {
  const tags = ['"1"']
  for (const usedAt of ['2026-03-01T12:00:00.000Z', '2026-03-01T12:01:00.000Z']) {
    await useAt(usedAt)
    const { statusCode, headers, body } = await send('GET', url, undefined, { 'if-none-match': tags.join(', ') })
    assert.deepEqual([statusCode, JSON.parse(body).lastUsedAt], [200, usedAt])
    assert.match(String(headers.etag), /^"1\.[0-9a-f]{16}"$/)
    assert.doesNotMatch(body, /_variant/)
    tags.push(String(headers.etag))
  }
  assert.equal(new Set(tags).size, 3)
  assert.equal((await send('GET', url, undefined, { 'if-none-match': tags[2] ?? '' })).statusCode, 304)
  const headers = { 'content-type': 'application/merge-patch+json', 'if-match': tags[1] ?? '' }
  const changed = await send('PATCH', url, { name: 'Renamed' }, headers)
  assert.deepEqual([changed.statusCode, changed.json().name], [200, 'Renamed'])
  assert.match(String(changed.headers.etag), /^"2\./)
  assert.equal((await send('PATCH', url, { name: 'Again' }, headers)).statusCode, 412)
}
