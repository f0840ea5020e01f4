import { text } from 'node:stream/consumers'
import { Agent, request } from 'undici'

/**
 * The reference of the webhook row: a loop that posts calls that are signed already, one after the other on each
 * connection, and forgets them. Reads `{ connections, calls: [{ url, headers, body }], count }` and writes
 * `{ perSecond }`, counted after the first tenth.
 */
const { connections, calls, count } = JSON.parse(await text(process.stdin)) as {
  connections: number
  calls: { url: string; headers: Record<string, string>; body: string }[]
  count: number
}
const dispatcher = new Agent({ connections })
const ready = calls.map((call) => ({ ...call, body: Buffer.from(call.body) }))
const warm = Math.floor(count / 10)
let sent = 0
let done = 0
let startedMs = 0

const post = async (): Promise<void> => {
  while (sent < count) {
    const { url, headers, body } = ready[sent++ % ready.length] as (typeof ready)[number]
    const response = await request(url, { method: 'POST', headers, body, dispatcher })
    await response.body.dump()
    if (response.statusCode !== 204) throw new Error(`The receiver answered ${response.statusCode}`)
    if (++done === warm) startedMs = performance.now()
  }
}
await Promise.all(Array.from({ length: connections }, post))
const perSecond = ((count - warm) * 1_000) / (performance.now() - startedMs)
process.stdout.write(JSON.stringify({ perSecond }))
await dispatcher.close()
