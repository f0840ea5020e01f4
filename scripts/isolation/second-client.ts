import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expectResponse } from '../../bench/http.ts'

/** What the second client observed during the abuse. */
export interface Observation {
  reads: number
  p50Ms: number
  p99Ms: number
  slowestMs: number
  /** How often the service closed the client's keep-alive connection or event stream. */
  cut: number
  deliveries: number
  slowestDeliveryMs: number
  /** The number of downloads of the client's own small report. */
  downloads: number
  slowestDownloadMs: number
  /** The number of events that were not delivered before the observation ended. */
  undelivered: number
  failures: string[]
}

export interface SecondClient {
  port: number
  token: string
  /** A task of this client that never ends: its event stream must stay open. */
  taskId: string
  /** A small, completed report owned by this client. */
  reportId: string
  products: number
}

const readEveryMs = 5
const eventEveryMs = 250
const downloadEveryMs = 500
const maxDownloadMs = 10_000
const lastDeliveryMs = 10_000

/**
 * Runs a well-behaved client: cheap reads on one keep-alive connection, downloads of a small report, one event stream,
 * and a webhook whose endpoint responds immediately. `stop` waits up to ten seconds for outstanding deliveries.
 */
export async function startSecondClient(client: SecondClient): Promise<{ stop: () => Promise<Observation> }> {
  const times: number[] = []
  const failures: string[] = []
  const connection = { cut: 0 }
  let isOver = false
  const webhook = await startWebhook(client)
  const stream = await openStream(client, () => {
    if (!isOver) connection.cut++
  })
  const reading = readAgainAndAgain(client, () => isOver, times, failures, connection)
  const writing = webhook.emitAgainAndAgain(() => isOver, failures)
  const downloadTimes: number[] = []
  const downloading = downloadAgainAndAgain(client, () => isOver, downloadTimes, failures)
  const stop = async () => {
    isOver = true
    await Promise.all([reading, writing, downloading])
    stream.destroy()
    const { deliveryTimes, undelivered } = await webhook.stop()
    times.sort((a, b) => a - b)
    const at = (share: number) => times[Math.floor(times.length * share)] ?? Number.POSITIVE_INFINITY
    return {
      ...{ reads: times.length, p50Ms: at(0.5), p99Ms: at(0.99), slowestMs: times.at(-1) ?? Number.POSITIVE_INFINITY },
      ...{ cut: connection.cut, deliveries: deliveryTimes.length, undelivered },
      ...{ downloads: downloadTimes.length, slowestDownloadMs: Math.max(0, ...downloadTimes) },
      ...{ slowestDeliveryMs: Math.max(0, ...deliveryTimes), failures: failures.slice(0, 5) },
    }
  }
  return { stop }
}

const bearer = ({ token }: Pick<SecondClient, 'token'>) => ({ authorization: `Bearer ${token}` })

async function readAgainAndAgain(
  client: SecondClient,
  isOver: () => boolean,
  times: number[],
  failures: string[],
  connection: { cut: number },
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false })
  for (let n = 0; !isOver(); n++) {
    const path = n % 10 === 9 ? '/livez' : `/products/${1 + (n % client.products)}`
    const options = { host: '127.0.0.1', port: client.port, path, agent, headers: bearer(client) }
    const startedMs = performance.now()
    const sent = request(options).end()
    try {
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'end')
      if (response.statusCode !== 200) failures.push(`GET ${path}: ${response.statusCode}`)
    } catch (error) {
      failures.push(`GET ${path}: ${error instanceof Error ? error.message : error}`)
    }
    if (n > 0 && !sent.reusedSocket) connection.cut++
    times.push(performance.now() - startedMs)
    await sleep(readEveryMs)
  }
  agent.destroy()
}

async function downloadAgainAndAgain(
  client: SecondClient,
  isOver: () => boolean,
  times: number[],
  failures: string[],
): Promise<void> {
  const path = `/api/reports/${client.reportId}/download`
  const request = { method: 'GET', path, headers: { ...bearer(client), accept: '*/*' } }
  while (!isOver()) {
    const startedMs = performance.now()
    const download = expectResponse({ port: client.port, tls: true }, 200, request)
    const outcome = await Promise.race([download, sleep(maxDownloadMs)]).catch((error) => error)
    if (outcome === undefined) failures.push(`GET ${path}: no response within ${maxDownloadMs} ms`)
    else if (outcome instanceof Error) failures.push(outcome.message)
    times.push(performance.now() - startedMs)
    await sleep(downloadEveryMs)
  }
}

async function openStream(client: SecondClient, onEnd: () => void): Promise<{ destroy: () => void }> {
  const path = `/api/reports/${client.taskId}/events`
  const headers = { ...bearer(client), accept: 'text/event-stream' }
  const options = {
    host: '127.0.0.1',
    port: client.port,
    path,
    headers,
    rejectUnauthorized: false,
    agent: false as const,
  }
  const sent = request(options).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  if (response.statusCode !== 200) throw new Error(`The event stream was rejected with ${response.statusCode}`)
  response.on('error', () => {})
  response.once('close', onEnd)
  response.resume()
  return sent
}

/** Starts a receiver that responds with 204 immediately, and subscribes it to `product.created`. */
async function startWebhook(client: SecondClient) {
  const sentMs = new Map<string, number>()
  const deliveryTimes: number[] = []
  const receiver = createServer((socket) => {
    let text = ''
    socket.on('error', () => socket.destroy())
    socket.on('data', (chunk) => {
      text += chunk
      for (const [, name = ''] of text.matchAll(/"name":"(isolation-\d+)"/g)) {
        const startedMs = sentMs.get(name)
        if (startedMs === undefined) continue
        sentMs.delete(name)
        deliveryTimes.push(performance.now() - startedMs)
        text = ''
        socket.write('HTTP/1.1 204 No Content\r\n\r\n')
      }
    })
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  const callbackUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`
  const headers = { ...bearer(client), 'content-type': 'application/json' }
  const address = { port: client.port, tls: true }
  const body = JSON.stringify({ event: 'product.created', callbackUrl })
  const registered = await expectResponse(address, 201, { method: 'POST', path: '/api/webhooks', headers, body })
  const { id } = JSON.parse(registered.body) as { id: string }
  const emitAgainAndAgain = async (isOver: () => boolean, failures: string[]) => {
    for (let n = 0; !isOver(); n++) {
      const name = `isolation-${n}`
      sentMs.set(name, performance.now())
      const product = JSON.stringify({ name, price: 1 })
      await expectResponse(address, 201, { method: 'POST', path: '/products', headers, body: product }).catch(
        (error) => {
          sentMs.delete(name)
          failures.push(String(error))
        },
      )
      await sleep(eventEveryMs)
    }
  }
  const stop = async () => {
    for (let waited = 0; sentMs.size > 0 && waited < lastDeliveryMs; waited += 50) await sleep(50)
    await expectResponse(address, 204, { method: 'DELETE', path: `/api/webhooks/${id}`, headers })
    receiver.close()
    return { deliveryTimes, undelivered: sentMs.size }
  }
  return { emitAgainAndAgain, stop }
}
