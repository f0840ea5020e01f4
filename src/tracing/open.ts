import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Config } from '../config/config.ts'
import { callSpans, jobSpans, requestSpans } from './spans.ts'

export interface TracingOptions {
  settings: Config['tracing']
  /** The URL that receives traces. */
  url: string
  version: string
  /** Returns the monotonic time in ms. */
  monotonic: () => number
  later: (ms: number, run: () => void) => () => void
  /** Called at most once a minute, and at the end, with the number of spans that were lost since the previous call. */
  onLost: (error: unknown, spans: number) => void
}

const flushMs = 2_000
const reportEveryMs = 60_000

/**
 * Starts exporting traces to a collector, in batches, with OTLP as JSON over HTTP. Returns the functions that begin
 * spans, and `close`, which exports the remaining spans but gives up after two seconds. While 2,048 spans are waiting
 * for the collector, new spans are dropped.
 */
export function openTracing(options: TracingOptions) {
  const { settings, url, version, later } = options
  const { headers, timeoutMs, serviceName, resourceAttributes } = settings
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: timeoutMs, ...(headers && { headers }) })
  const losses = lossReports(options)
  const provider = new TracerProvider({
    sampler: samplerOf(settings),
    resource: resourceFromAttributes({
      ...{ 'service.name': 'plinth', 'service.version': version, ...resourceAttributes },
      ...(serviceName !== null && { 'service.name': serviceName }),
    }),
    spanProcessors: [
      losses.counter,
      new BatchSpanProcessor({ exporter: losses.reporting(exporter), exportTimeoutMillis: timeoutMs }),
    ],
  })
  const tracer = provider.getTracer('plinth', version)
  return {
    startRequestSpan: requestSpans(tracer),
    startJobSpan: jobSpans(tracer),
    startCallSpan: callSpans(tracer),
    close: () => {
      const { promise: late, resolve } = Promise.withResolvers<void>()
      const cancel = later(flushMs, resolve)
      // The exporter has already reported a failure.
      const flushed = provider.shutdown().catch(() => {})
      return Promise.race([flushed, late]).finally(() => {
        cancel()
        losses.close()
      })
    },
  }
}

export type Tracing = ReturnType<typeof openTracing>

function samplerOf({ sampler: name, samplerRatio }: Config['tracing']): Sampler {
  const root = rootSampler(name.replace('parentbased_', ''), samplerRatio)
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root
}

function rootSampler(name: string, ratio: number): Sampler {
  if (name === 'always_on') return new AlwaysOnSampler()
  return name === 'always_off' ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio)
}

/** Reports lost spans: those in failed exports and, on close, all others that were not exported. */
function lossReports({ monotonic, onLost }: TracingOptions) {
  let [ended, exported, reported, failed] = [0, 0, 0, 0]
  let reportedAt = Number.NEGATIVE_INFINITY
  let isClosed = false
  let lastError: unknown = new Error('The collector did not respond before the shutdown')
  const report = (spans: number) => {
    reportedAt = monotonic()
    reported += spans
    failed = 0
    onLost(lastError, spans)
  }
  const nothing = async () => {}
  /** Counts ended spans, because the processor drops spans silently if too many are waiting. */
  const counter: SpanProcessor = {
    onStart: () => {},
    onEnd: () => void ended++,
    forceFlush: nothing,
    shutdown: nothing,
  }
  return {
    counter,
    /** Wraps an exporter so that its failed exports are reported. */
    reporting: (exporter: SpanExporter): SpanExporter => ({
      export: (spans, done) =>
        exporter.export(spans, (result) => {
          if (result.error) {
            failed += spans.length
            lastError = result.error
            if (!isClosed && monotonic() - reportedAt >= reportEveryMs) report(failed)
          } else exported += spans.length
          done(result)
        }),
      shutdown: () => exporter.shutdown(),
    }),
    close: () => {
      isClosed = true
      const lost = ended - exported - reported
      if (lost > 0) report(lost)
    },
  }
}
