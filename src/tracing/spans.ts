import {
  type Attributes,
  type Context,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { traceFields, traceText } from '../http/headers/trace-context.ts'
import type { StartRequestSpan } from '../http/server/access-log.ts'
import type { StartJobSpan } from '../queue/queue.ts'
import type { StartCallSpan } from '../webhooks/dispatch/build-request.ts'

const methods = /^(CONNECT|DELETE|GET|HEAD|OPTIONS|PATCH|POST|PUT|TRACE)$/

/** Begins a server span for each request; its name is the method and the route, such as `GET /products/{id}`. */
export const requestSpans =
  (tracer: Tracer): StartRequestSpan =>
  (method, parent) => {
    const known = methods.test(method) ? method : '_OTHER'
    const attributes = { 'http.request.method': known }
    const name = known === '_OTHER' ? 'HTTP' : known
    const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, contextOf(parent))
    return {
      trace: textOf(span, parent),
      end: ({ route, path, status, requestId }) => {
        const pattern = route?.replace(/:(\w+)/g, '{$1}')
        if (pattern !== undefined) span.updateName(`${name} ${pattern}`)
        span.setAttributes({
          ...{ 'url.path': path, 'http.response.status_code': status, 'plinth.request_id': requestId },
          ...(pattern !== undefined && { 'http.route': pattern }),
        })
        if (status >= 500) fail(span, String(status))
        span.end()
      },
    }
  }

/**
 * Begins a span for each run of jobs. If all jobs in the run belong to one trace, the span belongs to it, too.
 * Otherwise, the span begins a new trace, with links to the traces of the jobs.
 */
export const jobSpans =
  (tracer: Tracer): StartJobSpan =>
  ({ queue, traces, count, attempt }) => {
    const [first] = traces
    const isOneTrace = first !== undefined && traces.every((one) => sameTrace(one, first))
    const parent = isOneTrace ? first : null
    const attributes = {
      ...{ 'messaging.system': 'plinth', 'messaging.operation.type': 'process', 'messaging.destination.name': queue },
      ...(count > 1 ? { 'messaging.batch.message_count': count } : { 'plinth.attempt': attempt }),
    }
    const links = parent === null ? traces.slice(0, maxLinks).map((one) => ({ context: remote(one) })) : []
    const span = tracer.startSpan(queue, { kind: SpanKind.CONSUMER, attributes, links }, contextOf(parent))
    return {
      trace: textOf(span, parent),
      end: (error) => {
        if (error !== undefined) fail(span, error instanceof Error ? error.name : 'error')
        span.end()
      },
    }
  }

const maxLinks = 128

/**
 * Begins a client span for each delivery attempt. The span omits the URL's path and query, because they may contain
 * secrets.
 */
export const callSpans =
  (tracer: Tracer): StartCallSpan =>
  ({ trace: parent, url, id, webhookId, type, attempts }) => {
    const target = URL.parse(url)
    const attributes: Attributes = {
      ...{ 'http.request.method': 'POST', 'server.address': target?.hostname ?? '', 'plinth.delivery_id': id },
      ...{ 'url.scheme': target?.protocol.slice(0, -1) ?? '', 'plinth.event': type, 'plinth.attempt': attempts + 1 },
      ...(target?.port && { 'server.port': Number(target.port) }),
      ...(webhookId !== null && { 'plinth.webhook_id': webhookId }),
    }
    const span = tracer.startSpan('POST', { kind: SpanKind.CLIENT, attributes }, contextOf(parent))
    return {
      trace: textOf(span, parent),
      end: (outcome) => {
        if (outcome?.status) span.setAttribute('http.response.status_code', outcome.status)
        if (!outcome?.delivered) fail(span, outcome?.cause ?? 'error')
        span.end()
      },
    }
  }

function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type)
  span.setStatus({ code: SpanStatusCode.ERROR })
}

const sameTrace = (one: string, other: string) => traceFields(one).traceId === traceFields(other).traceId

/** Converts the trace context of a request or job to a span context. */
function remote(text: string) {
  const { traceId, spanId, isSampled, state } = traceFields(text)
  const traceState = state === null ? {} : { traceState: createTraceState(state) }
  return { traceId, spanId, traceFlags: isSampled ? 1 : 0, isRemote: true, ...traceState }
}

const contextOf = (parent: string | null): Context =>
  parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, remote(parent))

/** Returns the trace context to pass on to whatever the span causes; the parent's `tracestate` is unchanged. */
function textOf(span: Span, parent: string | null): string {
  const { traceId, spanId, traceFlags } = span.spanContext()
  const state = parent === null ? null : traceFields(parent).state
  return traceText({ traceId, spanId, isSampled: (traceFlags & 1) === 1, state })
}
