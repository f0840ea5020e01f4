import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'

/** The delivery attempts of one event; all have the same `webhook-id`. */
export interface Delivery {
  /** Identifies the event, such as `product.created 7`. */
  subject: string
  bodies: Set<string>
  attempts: number
  /** The number of attempts whose signature the `standardwebhooks` library rejected. */
  forged: number
  isTaken: boolean
}

export interface Receiver {
  url: string
  /** The deliveries by their `webhook-id`. */
  deliveries: Map<string, Delivery>
  /** Sets the secret for verifying deliveries to a path. */
  trust: (path: string, secret: string) => void
  close: () => void
}

/** Identifies an event by its type and body; matches the oracle's `subjectOf`. */
function subjectOf(type: string, body: string): string {
  const { taskId, id, name } = JSON.parse(body) as { taskId?: string; id?: number; name?: string }
  return `${type} ${taskId ?? (type === 'product.updated' ? `${id} ${name}` : id)}`
}

/** Starts a receiver that responds with 500 to the first attempt of one event in twenty, and otherwise with 204. */
export async function startReceiver(random: () => number): Promise<Receiver> {
  const deliveries = new Map<string, Delivery>()
  const secrets = new Map<string, Webhook>()
  const server = createServer(async (request, response) => {
    // A node that is killed while it sends a request leaves the request incomplete.
    const chunks = await request.toArray().catch(() => null)
    if (chunks === null) return
    const body = Buffer.concat(chunks).toString()
    const { 'webhook-id': id, 'webhook-event': type } = request.headers as Record<string, string>
    const subject = subjectOf(String(type), body)
    const delivery = deliveries.get(String(id)) ?? {
      subject,
      bodies: new Set(),
      attempts: 0,
      forged: 0,
      isTaken: false,
    }
    deliveries.set(String(id), delivery)
    delivery.bodies.add(body)
    delivery.attempts++
    if (!isSigned(secrets.get(request.url ?? ''), request.headers as Record<string, string>, body)) delivery.forged++
    const isRefused = delivery.attempts === 1 && random() < 0.05
    delivery.isTaken ||= !isRefused
    response.writeHead(isRefused ? 500 : 204).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    deliveries,
    trust: (path, secret) => void secrets.set(path, new Webhook(secret)),
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

function isSigned(webhook: Webhook | undefined, headers: Record<string, string>, body: string): boolean {
  try {
    webhook?.verify(body, headers)
    return webhook !== undefined
  } catch {
    return false
  }
}
