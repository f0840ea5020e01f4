import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { readConfig, tracesUrlOf } from '../../src/config/config.ts'
import type { AccessLine } from '../../src/http/server/access-log.ts'
import { openTracing } from '../../src/tracing/open.ts'
import { collector } from '../support/collector.ts'
import { eventually } from '../support/service.ts'

const line = { requestId: 'r', method: 'GET', path: '/', route: '/', status: 200, ms: 1 } as AccessLine
const traceparent = (flags: string) => `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-${flags}`

/** Opens an exporter with a clock and timers that the test controls. */
function exporting(url: string, env: Record<string, string> = {}) {
  const clock = { now: 0, reads: 0 }
  const timers: { ms: number; run: () => void; isCancelled: boolean }[] = []
  const lost: { error: unknown; spans: number }[] = []
  const tracing = openTracing({
    ...{ settings: readConfig({ OTEL_EXPORTER_OTLP_TIMEOUT: '2000', ...env }).tracing, url, version: '1' },
    monotonic: () => {
      clock.reads += 1
      return clock.now
    },
    later: (ms, run) => {
      const timer = { ms, run, isCancelled: false }
      timers.push(timer)
      return () => {
        timer.isCancelled = true
      }
    },
    onLost: (error, spans) => lost.push({ error, spans }),
  })
  const request = (parent: string | null = null) => {
    const span = tracing.startRequestSpan('GET', parent)
    span.end(line)
    return span.trace
  }
  return { clock, timers, lost, tracing, request }
}

describe('a collector', () => {
  it('that never responds delays a shutdown by at most two seconds, after which the lost spans are reported', async (t) => {
    const sockets: Socket[] = []
    const server = createServer((socket) => sockets.push(socket))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.after(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    const { port } = server.address() as { port: number }
    const { timers, lost, tracing, request } = exporting(`http://127.0.0.1:${port}/v1/traces`)
    request()
    const closed = tracing.close()
    await once(server, 'connection')
    assert.deepEqual(
      timers.map(({ ms }) => ms),
      [2_000],
    )
    timers[0]?.run()
    await closed
    assert.deepEqual(
      lost.map(({ error, spans }) => [String(error), spans]),
      [['Error: The collector did not respond before the shutdown', 1]],
    )
  })

  it('that rejects spans is reported at most once a minute and at shutdown, with the number of lost spans', async (t) => {
    const { received, url } = await collector(t)
    received.status = 400
    const { clock, lost, tracing, request } = exporting(`${url}/v1/traces`)
    // 512 spans fill a batch, which is exported immediately.
    const batch = async () => {
      const before = clock.reads
      for (let n = 0; n < 512; n++) request()
      // The exporter reads the clock only once the response has arrived.
      await eventually('the batch was refused', async () => clock.reads > before)
    }
    await batch()
    clock.now = 59_999
    await batch()
    clock.now = 60_000
    await batch()
    clock.now = 60_001
    request()
    await tracing.close()
    assert.deepEqual(
      lost.map(({ spans }) => spans),
      [512, 1_024, 1],
    )
  })

  it('that recovers receives all later spans; earlier losses are reported before the shutdown completes', async (t) => {
    const { received, url } = await collector(t)
    received.status = 400
    const { lost, tracing, request } = exporting(`${url}/v1/traces`)
    for (let batch = 1; batch <= 2; batch++) {
      for (let n = 0; n < 512; n++) request()
      await eventually('the batch was refused', async () => received.requests.length === batch)
    }
    received.status = 200
    request()
    await tracing.close()
    assert.deepEqual(
      lost.map(({ spans }) => spans),
      [512, 512],
    )
  })

  const sampled: [sampler: string, more: Record<string, string>, flags: [none: string, yes: string, no: string]][] = [
    ['parentbased_always_on', {}, ['01', '01', '00']],
    ['parentbased_always_off', {}, ['00', '01', '00']],
    ['always_on', {}, ['01', '01', '01']],
    ['always_off', {}, ['00', '00', '00']],
    ['traceidratio', { OTEL_TRACES_SAMPLER_ARG: '0' }, ['00', '00', '00']],
    ['parentbased_traceidratio', { OTEL_TRACES_SAMPLER_ARG: '1.0' }, ['01', '01', '00']],
  ]
  for (const [sampler, more, expected] of sampled) {
    it(`receives only the spans that ${sampler} samples`, async (t) => {
      const { received, url } = await collector(t)
      const { tracing, request } = exporting(`${url}/v1/traces`, { OTEL_TRACES_SAMPLER: sampler, ...more })
      const flags = [null, traceparent('01'), traceparent('00')].map((parent) => request(parent).slice(-2))
      await tracing.close()
      assert.deepEqual(flags, expected)
      assert.equal(received.spans.length, expected.filter((flag) => flag === '01').length)
    })
  }
})

describe('the URL for traces', () => {
  const urlIn = (env: Record<string, string>) => tracesUrlOf(readConfig(env))

  it('is the traces endpoint if set, otherwise the endpoint plus /v1/traces; null if tracing is disabled', () => {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' }
    assert.equal(urlIn(endpoint), 'http://collector:4318/v1/traces')
    assert.equal(urlIn({ ...endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://b/x' }), 'https://b/x')
    assert.equal(urlIn({ ...endpoint, OTEL_SDK_DISABLED: 'true' }), null)
    assert.equal(urlIn({}), null)
  })
})
