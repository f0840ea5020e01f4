import { url } from './address.ts'
import { choice, Expected, flag, integer, named, optional, setting, split, text } from './setting.ts'

const samplers = ['always_on', 'always_off', 'traceidratio'] as const
const allSamplers = [...samplers, ...samplers.map((name) => `parentbased_${name}` as const)]

const collector = (about: string) => optional(url(about, /^https?:\/\/[^\s]+$/, 'http://… or https://…'))

/** Defines comma-separated `name=value` pairs with percent-encoded values (W3C Baggage, as OpenTelemetry specifies). */
const pairs = (about: string) =>
  setting(
    (value) => {
      const entries = split(value).map((part) => /^([^=]+)=(.*)$/.exec(part)?.slice(1))
      try {
        return Object.fromEntries(
          entries.map(([name = '', encoded = ''] = []) => [name.trim(), decoded(name, encoded)]),
        )
      } catch {
        throw new Expected('name=value pairs, comma-separated, with percent-encoded values')
      }
    },
    '',
    about,
  )

function decoded(name: string, encoded: string): string {
  if (name.trim() === '') throw new Error('The pair has no name')
  return decodeURIComponent(encoded.trim())
}

const ratio = (about: string) =>
  setting(
    (written) => {
      const value = Number(written)
      if (!/^\d*\.?\d+$/.test(written) || value > 1) throw new Expected('a number from 0 to 1')
      return value
    },
    '1',
    about,
  )

/** Settings for exporting traces: the standard variables of OpenTelemetry. */
export const tracingSettings = {
  endpoint: named(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    collector('Collector that receives traces at /v1/traces by OTLP over HTTP; none by default'),
  ),
  tracesEndpoint: named(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    collector('Full URL for traces, instead of OTEL_EXPORTER_OTLP_ENDPOINT'),
  ),
  headers: named('OTEL_EXPORTER_OTLP_HEADERS', optional(pairs('Headers for the collector, such as authorization=…'))),
  timeoutMs: named('OTEL_EXPORTER_OTLP_TIMEOUT', integer(1, 60_000, 10_000, 'Milliseconds for one export')),
  serviceName: named('OTEL_SERVICE_NAME', optional(text('', 'Name of the service in traces; plinth by default'))),
  resourceAttributes: named('OTEL_RESOURCE_ATTRIBUTES', optional(pairs('Attributes of the service in traces'))),
  sampler: named('OTEL_TRACES_SAMPLER', choice(allSamplers, 'parentbased_always_on', 'Which traces are exported')),
  samplerRatio: named('OTEL_TRACES_SAMPLER_ARG', ratio('Share of traces for the …traceidratio samplers')),
  isDisabled: named('OTEL_SDK_DISABLED', flag(false, 'Whether traces are not exported even if an endpoint is set')),
}
