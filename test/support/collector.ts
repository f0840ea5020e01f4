import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { gunzipSync } from 'node:zlib'

interface Value {
  stringValue?: string
  intValue?: number | string
}

interface ExportedSpan {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  attributes: { key: string; value: Value }[]
  links?: { traceId: string; spanId: string }[]
  status: { code?: number }
}

/** A span as received, with its attributes by name. */
export interface ReceivedSpan extends Omit<ExportedSpan, 'attributes'> {
  attributes: Record<string, string | number | undefined>
}

export const kinds = { server: 2, client: 3, consumer: 5 }

const plainValue = ({ stringValue, intValue }: Value) =>
  stringValue ?? (intValue === undefined ? undefined : Number(intValue))
const named = (attributes: ExportedSpan['attributes']) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, plainValue(value)]))

/** Starts a server that receives OTLP/HTTP traces in JSON, and responds with `status`. */
export async function collector(t: TestContext) {
  const received = {
    status: 200,
    spans: [] as ReceivedSpan[],
    resources: [] as ReceivedSpan['attributes'][],
    requests: [] as { url: string | undefined; headers: IncomingHttpHeaders }[],
  }
  const server = createServer(async (request, response) => {
    const bytes = Buffer.concat(await request.toArray())
    const text = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString()
    received.requests.push({ url: request.url, headers: request.headers })
    for (const { resource, scopeSpans } of JSON.parse(text).resourceSpans) {
      received.resources.push(named(resource.attributes))
      const spans: ExportedSpan[] = scopeSpans.flatMap((scope: { spans: ExportedSpan[] }) => scope.spans)
      received.spans.push(...spans.map((span) => ({ ...span, attributes: named(span.attributes) })))
    }
    response.writeHead(received.status, { 'content-type': 'application/json' }).end('{}')
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
