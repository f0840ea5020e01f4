import type { Registry } from 'prom-client'
import { registerRead } from './samples.ts'

const periodMs = 60_000
const maxCounted = 100
const maxShown = 10

/** The number of requests from each client in one period. */
type Counted = Map<string, { requests: number }>

/**
 * Registers a metric of the ten busiest clients of the last minute. Returns a function that counts one request of a
 * client. Uses the space-saving algorithm, which counts at most 100 clients at a time: a new client replaces the client
 * with the fewest requests and continues from that client's count. A client with more than 1 % of a period's requests
 * is therefore never missed. `monotonic` is in ms.
 */
export function topClients(registry: Registry, monotonic: () => number): (client: string) => void {
  let current: Counted = new Map()
  let previous: Counted = new Map()
  let startedMs = monotonic()
  const rotate = (nowMs: number) => {
    if (nowMs - startedMs < periodMs) return
    previous = nowMs - startedMs < 2 * periodMs ? current : new Map()
    current = new Map()
    startedMs = nowMs
  }
  registerRead(registry, {
    name: 'plinth_client_requests_top',
    help: 'Requests of the ten busiest clients in about the last minute',
    type: 'gauge',
    read: () => {
      const nowMs = monotonic()
      rotate(nowMs)
      return busiest(current, previous, 1 - (nowMs - startedMs) / periodMs)
    },
  })
  return (client) => {
    rotate(monotonic())
    const counted = current.get(client)
    if (counted !== undefined) counted.requests++
    else current.set(client, { requests: 1 + (current.size < maxCounted ? 0 : removeFewest(current)) })
  }
}

/** Removes the client with the fewest requests and returns that number of requests. */
function removeFewest(counted: Counted): number {
  let fewest: [client: string, requests: number] = ['', Number.POSITIVE_INFINITY]
  for (const [client, { requests }] of counted) if (requests < fewest[1]) fewest = [client, requests]
  counted.delete(fewest[0])
  return fewest[1]
}

/**
 * Returns the clients with the most requests in the last minute. Each number is an estimate: the client's requests of
 * the current period, plus those of the previous one in proportion to its overlap with the last minute.
 */
function busiest(current: Counted, previous: Counted, share: number) {
  const clients = new Set([...current.keys(), ...previous.keys()])
  return [...clients]
    .map((client) => {
      const before = previous.get(client)?.requests ?? 0
      return { labels: { client }, value: Math.round((current.get(client)?.requests ?? 0) + before * share) }
    })
    .filter(({ value }) => value > 0)
    .sort((one, other) => other.value - one.value)
    .slice(0, maxShown)
}
