import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type Dispatcher, request } from 'undici'

/** A block of a stream: an event, or a comment. */
export interface StreamBlock {
  id?: string
  retry?: string
  event?: string
  data?: { id?: number } & Record<string, unknown>
  comment?: string
}

/** Listens on a free port; returns the origin. */
export async function originOf(app: FastifyInstance): Promise<string> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
}

/** Opens an event stream. `next` resolves with the next block, or undefined once the stream has ended. */
export async function openEventStream(
  url: string,
  bearer: string | null,
  headers: Record<string, string> = {},
  dispatcher?: Dispatcher,
) {
  const gone = new AbortController()
  const {
    statusCode,
    headers: received,
    body,
  } = await request(url, {
    ...(dispatcher && { dispatcher }),
    // Do not keep the connection alive, because an idle connection delays closing the server.
    reset: true,
    headers: {
      ...{ accept: 'text/event-stream', 'x-forwarded-proto': 'https' },
      ...(bearer && { authorization: `Bearer ${bearer}` }),
      ...headers,
    },
    signal: gone.signal,
  })
  const blocks = blocksOf(body)
  const next = async (): Promise<StreamBlock | undefined> => (await blocks.next()).value
  return {
    status: statusCode,
    headers: received,
    body,
    next,
    /** Resolves with the next event, skipping heartbeats, or undefined once the stream has ended. */
    event: async (): Promise<StreamBlock | undefined> => {
      for (;;) {
        const block = await next()
        if (block === undefined || block.event !== undefined) return block
      }
    },
    close: async () => {
      gone.abort()
      if (!body.closed) await once(body, 'close').catch(() => {})
    },
  }
}

export type OpenEventStream = Awaited<ReturnType<typeof openEventStream>>

async function* blocksOf(body: AsyncIterable<Buffer>): AsyncGenerator<StreamBlock, undefined> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      yield blockOf(text.slice(0, end))
      text = text.slice(end + 2)
    }
  }
  assert.equal(text, '', 'the stream ended within a block')
  return undefined
}

function blockOf(text: string): StreamBlock {
  const fields = text.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)])
  const { '': comment, data, ...rest } = Object.fromEntries(fields) as Record<string, string>
  return { ...rest, ...(comment !== undefined && { comment }), ...(data !== undefined && { data: JSON.parse(data) }) }
}
