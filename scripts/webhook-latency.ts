import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expectResponse } from '../bench/http.ts'
import { openSandbox } from '../bench/sandbox.ts'
import { startService } from '../bench/service.ts'
import { withoutLimits } from '../test/support/limits.ts'
import { positionalsOr } from './positionals.ts'

const usage = `Measures the webhook latency of an idle service: from sending the request that causes an event, including its
commit, to the first byte at the receiver.

  node scripts/webhook-latency.ts [events]

  events  number of events (200)
  --help  print this text

The exit code is 1 if the median is 20 ms or more.
`

const positionals = positionalsOr(usage)
const events = Number(positionals[0] ?? 200)
if (!Number.isSafeInteger(events) || events < 1) {
  throw new Error(`events ${positionals[0]}: expected a whole number, 1 or more`)
}
const pauseMs = 30
const maxMs = 20
const sandbox = openSandbox()
let onCall: (atMs: number) => void = () => {}
const receiver = createServer((socket) => {
  socket.on('error', () => socket.destroy())
  socket.on('data', () => {
    onCall(performance.now())
    socket.write('HTTP/1.1 204 No Content\r\n\r\n')
  })
}).listen(0, '127.0.0.1')
try {
  await once(receiver, 'listening')
  const options = { rows: 1, tls: false, profile: false } as Parameters<typeof startService>[1]
  const calls = {
    PLINTH_WEBHOOK_ALLOW_HTTP: 'true',
    PLINTH_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    PLINTH_WEBHOOK_RATE: '0',
  }
  const service = await startService(sandbox, options, false, { limits: { ...withoutLimits, ...calls } })
  const headers = { authorization: `Bearer ${await service.token()}`, 'content-type': 'application/json' }
  const callbackUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`
  const registration = JSON.stringify({ event: 'product.created', callbackUrl })
  await expectResponse(service, 201, { method: 'POST', path: '/api/webhooks', headers, body: registration })
  const times: number[] = []
  for (let n = 0; n < events; n++) {
    const { promise, resolve } = Promise.withResolvers<number>()
    onCall = resolve
    const body = JSON.stringify({ name: `Product ${n}`, price: 1 })
    const sentMs = performance.now()
    await expectResponse(service, 201, { method: 'POST', path: '/products', headers, body })
    times.push((await promise) - sentMs)
    await sleep(pauseMs)
  }
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.floor(times.length * share)] as number
  process.stdout.write(`${events} events: p50 ${at(0.5).toFixed(1)} ms, p95 ${at(0.95).toFixed(1)} ms\n`)
  process.exitCode = at(0.5) < maxMs ? 0 : 1
} finally {
  await sandbox.clear()
  receiver.close()
}
