import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../src/serving/listeners.ts'
import { withoutLimits } from '../test/support/limits.ts'
import type { Bench, Measurement } from './bench.ts'
import { loadCore, memoryOf, pinned, resetPeak } from './cpu-and-memory.ts'
import { expectResponse, proxied, requestText } from './http.ts'
import type { StreamResult } from './open-load.ts'
import { bestRun, withRatio } from './results.ts'
import { environment, runOpenLoad, startReady } from './sandbox.ts'
import { referenceProgram, type Service, startService } from './service.ts'

const rows = 50_000
const readsPerSecond = 2_000
/** Each report notifies this many webhooks. */
const endpoints = 16
const reportsAtOnce = 2
const searchesAtOnce = 2
const title = 'p99 of GET during reports, fan-out and searches'

/** Compares the latency of reads while the service works in the background with that of reads alone. */
export const backgroundRow: Measurement = { name: 'background', measure }

const settings = {
  ...withoutLimits,
  ...{ PLINTH_WEBHOOK_ALLOW_HTTP: 'true', PLINTH_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8', PLINTH_WEBHOOK_RATE: '0' },
}

async function measure(bench: Bench) {
  const { options, sandbox, pin, say } = bench
  say(
    `${title}: ${readsPerSecond} reads per second, ${reportsAtOnce} reports of ${rows} rows and ${searchesAtOnce} searches at once`,
  )
  const receiverPort = await freePort()
  const receiver = await startReady(
    sandbox,
    pinned(pin, loadCore, [process.execPath, referenceProgram, 'webhook-receiver']),
    environment({ RECEIVER_PORT: String(receiverPort) }),
  )
  const service = await startService(sandbox, { ...options, rows }, pin, { name: 'background', limits: settings })
  resetPeak(service.pid)
  const headers = { ...proxied(options.tls), authorization: `Bearer ${await service.token()}` }
  await registerWebhooks(service, headers, receiverPort)
  const reads = Array.from({ length: 1_000 }, (_, at) => requestText('GET', `/products/${1 + at * 50}`, headers))
  const order = { port: service.port, tls: options.tls, seconds: options.seconds, serverPid: service.pid }
  const streams = [{ name: 'reads', requests: reads, perSecond: readsPerSecond, connections: options.connections }]
  const run = async (side: string) => {
    const result = await runOpenLoad(sandbox, pin, { ...order, streams })
    const { p50Ms, p99Ms, statuses } = result.streams.reads as StreamResult
    say(`  ${side.padEnd(9)} p50 ${p50Ms.toFixed(2)} p99 ${p99Ms.toFixed(2)} ms   ${JSON.stringify(statuses)}`)
    return { ...result, perSecond: 1_000 / p99Ms }
  }
  const runBeside = async (side: string) => {
    const work = startWork(service, headers)
    await sleep(500)
    const result = await run(side)
    const { reports, searches } = await work.stop()
    say(`            ${reports} reports, ${searches} searches`)
    return result
  }
  await run('warming')
  await runBeside('warming')
  const rounds = []
  for (let round = 1; round <= options.rounds; round++)
    rounds.push({ reference: await bestRun(() => run('alone')), service: await runBeside('beside') })
  const memory = memoryOf(service.pid)
  await service.stop()
  await sandbox.stop(receiver)
  return withRatio({
    name: 'background',
    title,
    floor: 0.5,
    unit: 'requests',
    reference: 'reads alone',
    rounds,
    memory,
  })
}

type Headers = Record<string, string>

async function registerWebhooks(service: Service, headers: Headers, port: number): Promise<void> {
  for (let at = 0; at < endpoints; at++) {
    const body = JSON.stringify({ event: 'report.completed', callbackUrl: `http://127.0.0.1:${port}/hooks/${at}` })
    await post(service, headers, '/api/webhooks', body, 201)
  }
}

const post = async (service: Service, headers: Headers, path: string, body: string, status: number) => {
  const json = { ...headers, 'content-type': 'application/json' }
  return JSON.parse((await expectResponse(service, status, { method: 'POST', path, headers: json, body })).body)
}

/** Requests reports and searches, one after the other in each loop, until it is stopped. */
function startWork(service: Service, headers: Headers) {
  const done = { reports: 0, searches: 0 }
  let isStopped = false
  const loops = [
    ...Array.from({ length: reportsAtOnce }, async () => {
      while (!isStopped) {
        await report(service, headers)
        done.reports += 1
      }
    }),
    ...Array.from({ length: searchesAtOnce }, async (_, at) => {
      for (let search = 0; !isStopped; search++) {
        const path = `/products?q=${encodeURIComponent(`anvil ${at}${search}`)}`
        await expectResponse(service, 200, { method: 'GET', path, headers })
        done.searches += 1
      }
    }),
  ]
  return {
    stop: async () => {
      isStopped = true
      await Promise.all(loops)
      return done
    },
  }
}

async function report(service: Service, headers: Headers): Promise<void> {
  const { taskId } = await post(service, headers, '/api/reports', '{"reportType":"products","format":"csv"}', 202)
  for (let status = ''; status !== 'completed'; await sleep(20)) {
    const path = `/api/reports/${taskId}/status`
    status = JSON.parse((await expectResponse(service, 200, { method: 'GET', path, headers })).body).status
    if (status === 'failed') throw new Error(`The report ${taskId} failed`)
  }
}
