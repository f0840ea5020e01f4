import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'

/** A call recorded by a receiver. */
export interface Received {
  id: string
  bytes: string
  headers: IncomingMessage['headers']
  atMs: number
}

/** An endpoint that misbehaves but eventually responds to every delivery with 2xx. */
export interface Hostile {
  name: string
  url: string
  /** The calls that the endpoint received completely and acknowledged with 2xx. */
  taken: Received[]
  calls: () => number
  close: () => void
}

interface Surroundings {
  /** The sender's clock in epoch ms. */
  now: () => number
  /** Returns a random number in [0, 1). */
  random: () => number
  /** A certificate that the sender trusts, unlike `untrusted`. */
  trusted: { key: string; cert: string }
  untrusted: { key: string; cert: string }
}

type Answer = (response: ServerResponse, tries: number, request: IncomingMessage) => 'taken' | undefined

const outageMs = 3_600_000
const ok = (response: ServerResponse): 'taken' => {
  response.writeHead(204).end()
  return 'taken'
}
const status =
  (code: number, headers: Record<string, string> = {}): ((response: ServerResponse) => undefined) =>
  (response) => {
    response.writeHead(code, headers).end('no')
    return undefined
  }
const raw =
  (text: string): ((response: ServerResponse) => undefined) =>
  (response) => {
    response.socket?.end(text)
    return undefined
  }

/** Returns, by receiver name, a function that responds to the n-th attempt at a delivery. */
function answers({ random, now }: Surroundings): Record<string, Answer> {
  const started = now()
  const first =
    (bad: (response: ServerResponse) => undefined): Answer =>
    (response, tries) =>
      tries === 1 ? bad(response) : ok(response)
  return {
    // Never fails after the seventh attempt; otherwise, one delivery in a thousand would fail all ten by chance.
    'half of its answers are 500': (response, tries) =>
      tries < 8 && random() < 0.5 ? status(500)(response) : ok(response),
    'hangs at first': (_response, tries) => (tries > 1 ? ok(_response) : undefined),
    'resets the connection at first': (response, tries) => {
      if (tries > 1) return ok(response)
      response.socket?.destroy()
      return undefined
    },
    'drips a byte at a time at first': first((response) => {
      response.writeHead(200)
      const drip = setInterval(() => response.write('.'), 20)
      response.on('close', () => clearInterval(drip))
      return undefined
    }),
    'answers 200 with an endless body': (response) => {
      const chunk = Buffer.alloc(16_384, 'x')
      const pour = () => {
        while (!response.destroyed && response.write(chunk));
      }
      response.writeHead(200).on('drain', pour)
      pour()
      return 'taken'
    },
    'redirects at first': first(status(307, { location: 'http://127.0.0.1:9/elsewhere' })),
    'speaks no HTTP at first': first(raw('SSH-2.0-OpenSSH_9.2\r\n')),
    'sends endless headers at first': first(raw(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`)),
    'asks to wait at first': first(status(429, { 'retry-after': '60' })),
    'answers 500, 503 and then 200': (response, tries) =>
      tries < 3 ? status(tries === 1 ? 500 : 503)(response) : ok(response),
    'is away for an hour': (response) => {
      if (now() >= started + outageMs) return ok(response)
      response.socket?.destroy()
      return undefined
    },
  }
}

/** Starts twelve hostile receivers; the last one has an untrusted certificate during the first hour. */
export async function hostileReceivers(surroundings: Surroundings): Promise<Hostile[]> {
  const plain = Object.entries(answers(surroundings)).map(([name, answer]) => receiving(name, answer, surroundings))
  return Promise.all([...plain, badlyCertified(surroundings)])
}

/** Starts a receiver that responds with 204 immediately. */
export const healthyReceiver = (surroundings: Surroundings, name: string): Promise<Hostile> =>
  receiving(name, ok, surroundings)

async function receiving(name: string, answer: Answer, surroundings: Surroundings): Promise<Hostile> {
  return listening(name, surroundings, answer, (listener) => createServer(listener), 'http')
}

async function badlyCertified(surroundings: Surroundings): Promise<Hostile> {
  const { now, trusted, untrusted } = surroundings
  const until = now() + outageMs
  let server: SecureServer | undefined
  const made = await listening(
    'has a certificate that is not trusted for an hour',
    surroundings,
    ok,
    (listener) => {
      server = createSecureServer(untrusted, listener)
      return server
    },
    'https',
  )
  const renew = setInterval(() => {
    if (now() < until) return
    server?.setSecureContext(trusted)
    clearInterval(renew)
  }, 5)
  return {
    ...made,
    close: () => {
      clearInterval(renew)
      made.close()
    },
  }
}

async function listening(
  name: string,
  { now }: Surroundings,
  answer: Answer,
  make: (listener: RequestListener) => Server,
  scheme: string,
): Promise<Hostile> {
  const taken: Received[] = []
  const tries = new Map<string, number>()
  let calls = 0
  const sockets = new Set<Socket>()
  const server = make(async (request, response) => {
    calls += 1
    response.on('error', () => {})
    const bytes = Buffer.concat(await request.toArray().catch(() => [])).toString()
    const id = String(request.headers['webhook-id'])
    tries.set(id, (tries.get(id) ?? 0) + 1)
    const call = { id, bytes, headers: request.headers, atMs: now() }
    if (answer(response, tries.get(id) as number, request) === 'taken') taken.push(call)
  })
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => {})))
  server.on('tlsClientError', () => {})
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { name, url: `${scheme}://localhost:${port}/hook`, taken, calls: () => calls, close }
}

/** Opens a port that accepts connections but never responds. */
export async function blackHole(): Promise<{ url: string; close: () => void }> {
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => void sockets.add(socket.on('error', () => {}).resume()))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { url: `http://localhost:${port}/hole`, close }
}
