/**
 * The abusive client, in its own process so that its work does not distort the second client's measurements: `node abuse.ts
 * '<AbuseOrder as JSON>'`. Sends `ready` to its parent once the abuse is in progress and, when the parent stops it, the
 * number of responses by status.
 */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { type AddressInfo, connect as connectPlain, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:tls'
import type { AbuseOrder, Scenario } from './order.ts'

const order = JSON.parse(process.argv[2] ?? '') as AbuseOrder
const statuses: Record<string, number> = {}
const host = '127.0.0.1'
/** Differs from the second client's address, because limits also apply per address. */
const localAddress = '127.0.0.2'
const times = (count: number) => Math.max(1, Math.ceil(count * order.scale))
const count = (outcome: string | number) => {
  statuses[outcome] = (statuses[outcome] ?? 0) + 1
}

interface Call {
  method?: string
  path: string
  token?: string | null
  headers?: Record<string, string>
  body?: unknown
}

const agent = new Agent({ keepAlive: true, maxSockets: 64, rejectUnauthorized: false, localAddress })

/** Sends one request and returns the response body; counts the status or the connection error. */
async function call({ method = 'GET', path, token = order.token, headers, body }: Call): Promise<string> {
  const sent = request({
    ...{ host, port: order.port, method, path, agent },
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
  })
  sent.end(body === undefined ? undefined : JSON.stringify(body))
  try {
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    const text = (await response.setEncoding('utf8').toArray()).join('')
    count(response.statusCode as number)
    return text
  } catch (error) {
    count((error as NodeJS.ErrnoException).code ?? 'error')
    // Avoids a busy loop while connections are refused.
    await sleep(50)
    return ''
  }
}

/** Sends these requests in concurrent loops without pauses. */
function loops(parallel: number, calls: (n: number) => Call): void {
  let n = 0
  for (let loop = 0; loop < parallel; loop++) {
    void (async () => {
      for (;;) await call(calls(n++))
    })()
  }
}

const among = (calls: readonly Call[]) => (n: number) => calls[n % calls.length] as Call

/** Opens a connection that sends one request and never reads the response. */
function openUnread(path: string): Socket {
  const socket = connect({ socket: connectPlain({ host, port: order.port, localAddress }), rejectUnauthorized: false })
  socket.on('error', (error: NodeJS.ErrnoException) => count(error.code ?? 'error'))
  socket.on('close', () => count('closed'))
  socket.once('secureConnect', () => {
    socket.pause()
    socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${order.token}\r\n\r\n`)
  })
  return socket
}

/** Keeps this many connections open; replaces each connection shortly after it ends. */
function keepOpen(amount: number, open: () => Socket): void {
  const next = () => {
    open().once('close', () => setTimeout(next, 100))
  }
  for (let n = 0; n < amount; n++) next()
}

/** Starts an endpoint that accepts every connection and never responds. */
async function silentEndpoint(): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => socket.destroy())).listen(0, host)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

const webhook = `/api/webhooks/${order.webhookId}`

const scenarios = {
  /** Filters the delivery log of a webhook that has millions of deliveries. */
  'delivery-log': async () => {
    const queries = ['event=report.completed', 'event=product.deleted', 'status=pending', 'status=failed']
    const more = ['status=failed&sort=createdAt', 'status=delivered&event=book.updated', 'since=2020-01-01T00:00:00Z']
    loops(8, among([...queries, ...more].map((query) => ({ path: `${webhook}/deliveries?${query}` }))))
  },
  /** Pauses and resumes one webhook, changes its URL, and replays its failed deliveries. */
  'webhook-changes': async () => {
    const patch = (body: object): Call => ({ method: 'PATCH', path: webhook, body })
    const replay = { since: '2020-01-01T00:00:00Z', status: 'failed' }
    loops(
      4,
      among([
        patch({ status: 'paused' }),
        patch({ status: 'active' }),
        { method: 'POST', path: `${webhook}/replay`, body: replay },
        patch({ callbackUrl: `http://127.0.0.1:9/${Date.now()}` }),
      ]),
    )
  },
  /** Filters a list of a million tasks. */
  'report-list': async () => {
    const queries = ['status=failed', 'status=pending', 'reportType=deliveries', 'status=failed&reportType=activity']
    loops(8, among(queries.map((query) => ({ path: `/api/reports?${query}` }))))
  },
  /** Filters the audit log. */
  audit: async () => {
    const queries = ['target=nothing', 'event=login.failed&clientId=nobody', 'subject=nobody', 'event=nothing.at-all']
    loops(8, among(queries.map((query) => ({ path: `/api/audit?${query}` }))))
  },
  /** Sends anonymous requests with searches, exact counts and sorts that no index supports. */
  search: async () => {
    const queries = ['q=zzzz', 'q=zz', 'q=a&sort=-title', 'author=nobody&genre=nothing&sort=-updatedAt']
    const paths = queries.map((query) => ({ path: `/books?${query}`, token: null }))
    const exact = { path: '/books', token: null, headers: { prefer: 'count=exact' } }
    loops(16, (n) => {
      const chosen = among([...paths, exact])(n)
      // Varies the limit, so that hardly any response comes from a cache.
      return { ...chosen, path: `${chosen.path}${chosen.path.includes('?') ? '&' : '?'}limit=${1 + (n % 150)}` }
    })
  },
  /** Requests exact counts and searches in a list of a million users, with a token. */
  'user-search': async () => {
    const exact = { prefer: 'count=exact' }
    const queries = ['q=zzzz', 'q=zz', 'q=user', 'name=nobody&sort=-createdAt']
    loops(16, (n) => ({ path: `/users?${queries[n % queries.length]}&limit=${1 + (n % 150)}`, headers: exact }))
  },
  /** Registers endpoints that never respond, for several owners, and triggers deliveries to them. */
  'dead-endpoints': async () => {
    const port = await silentEndpoint()
    for (const token of order.ownerTokens) {
      for (let n = 0; n < times(150); n++) {
        const body = { event: 'book.created', callbackUrl: `http://127.0.0.1:${port}/${n}` }
        await call({ method: 'POST', path: '/api/webhooks', token, body })
      }
    }
    for (let n = 0; n < times(40); n++) {
      await call({ method: 'POST', path: '/books', body: { title: `Dead end ${n}`, author: 'Nobody' } })
    }
    await sleep(times(3_000))
  },
  /** Opens event streams and long polls for one client. */
  streams: async () => {
    const path = `/api/reports/${order.endlessTaskId}`
    keepOpen(times(1_000), () => openUnread(`${path}/events`))
    for (let n = 0; n < times(100); n++) {
      void (async () => {
        for (;;) {
          await call({ path: `${path}/status`, headers: { prefer: 'wait=30' } })
          await sleep(100)
        }
      })()
    }
    await sleep(times(2_000))
  },
  /** Starts downloads and never reads them. */
  downloads: async () => {
    keepOpen(times(400), () => openUnread(`/api/reports/${order.reportId}/download`))
    await sleep(times(2_000))
  },
  /** Opens connections that send nothing. */
  connections: async () => {
    keepOpen(times(1_000), () => {
      const socket = connectPlain({ host, port: order.port, localAddress })
      socket.on('error', (error: NodeJS.ErrnoException) => count(error.code ?? 'error'))
      socket.on('close', () => count('closed'))
      socket.resume()
      return socket
    })
    await sleep(times(2_000))
  },
} satisfies Record<Scenario, () => Promise<void>>

process.once('message', () => process.send?.(statuses, () => process.exit(0)))
process.once('disconnect', () => process.exit(0))
await scenarios[order.scenario]()
process.send?.('ready')
