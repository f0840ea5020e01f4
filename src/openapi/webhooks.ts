import type { Parameter } from './components.ts'
import { capital, type Schema } from './schemas.ts'

/** An event type that webhooks can receive, with its description and an example body. */
export interface EventType {
  description: string
  example: object
  /** The body's schema; by default derived from the example, with all members required. */
  schema?: object
}

const header = (name: string, example: string | number, description: string, schema: Schema = text): Parameter => ({
  name,
  in: 'header',
  description,
  required: true,
  schema,
  example,
})

const text = { type: 'string' }

/**
 * The headers of a delivery: those of Standard Webhooks 1.0, two extensions and the trace context. Headers and body are
 * repeated inline for each event, because generators consider components that only webhooks reference to be unused.
 */
const webhookHeaders: Parameter[] = [
  header(
    'webhook-id',
    'msg_Rmlyc3RQcm9ncmFtbWVyXw',
    'The same for every attempt, so that receivers can detect duplicates',
  ),
  header('webhook-timestamp', 1_772_366_400, 'When this attempt was signed, in epoch seconds', {
    type: 'integer',
  }),
  header(
    'webhook-signature',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
    'One or more signatures of `id.timestamp.body`, separated by spaces: `v1,` and HMAC-SHA256 with the secret, ' +
      '`v1a,` and Ed25519 with the key at /.well-known/webhook-keys.json',
  ),
  header('webhook-event', 'report.completed', 'The event type'),
  header('webhook-attempt', 1, 'The number of this attempt, from 1', { type: 'integer', minimum: 1 }),
  {
    ...header(
      'traceparent',
      '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'The trace (W3C Trace Context)',
    ),
    required: false,
  },
]

/** Returns the requests that webhooks receive, one per event type. */
export function webhooksOf(events: Record<string, EventType>): Record<string, { post: Call }> {
  return Object.fromEntries(Object.entries(events).map(([event, type]) => [event, { post: call(event, type) }]))
}

type Call = ReturnType<typeof call>

function call(event: string, { description, example, schema = objectLike(example) }: EventType) {
  const name = event.split(/\W/).map(capital).join('')
  const body: Schema = { ...schema, title: `${name}Event`, examples: [example] }
  return {
    operationId: `on${name}`,
    summary: description,
    description: 'Sent to every webhook that is registered for it, signed, and retried until an attempt succeeds.',
    tags: ['events'],
    // Deliveries carry no token: the signature authenticates the service.
    security: [],
    parameters: webhookHeaders,
    requestBody: {
      required: true,
      description: 'The event; with `payloadStyle: envelope`, in the member `data`',
      content: { 'application/json': { schema: { anyOf: [body, envelopeOf(event, body)] } } },
    },
    responses: {
      '2XX': { description: 'Delivered, if the response arrives in time' },
      '410': { description: 'The receiver is gone: the webhook is disabled' },
      default: { description: 'Not delivered: the attempt is retried; redirects are not followed' },
    },
  }
}

/** Derives a schema from an example event; all members are required. */
function objectLike(example: object): Schema {
  const members = Object.entries(example).map(([name, value]) => [name, { type: typeOf(value) }])
  return { type: 'object', properties: Object.fromEntries(members), required: Object.keys(example) }
}

const typeOf = (value: unknown) => (Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value)

function envelopeOf(event: string, data: Schema): Schema {
  const properties: Record<string, Schema> = {
    type: { type: 'string', const: event },
    timestamp: { type: 'string', format: 'date-time' },
    data,
  }
  return { type: 'object', properties, required: ['type', 'timestamp', 'data'] }
}
