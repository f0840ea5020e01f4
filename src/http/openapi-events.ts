import type { Parameter } from './openapi-components.ts'
import { capital, type Schema, type SchemaNames } from './openapi-schemas.ts'

/** An event that webhooks receive: what it tells, and a body as it is sent. */
export interface EventType {
  description: string
  example: object
  /** Of the body; without it the members of the example are all there are, and all of them are sent. */
  schema?: object
}

const header = (name: string, description: string, schema: Schema = { type: 'string' }): Parameter => ({
  name,
  in: 'header',
  description,
  required: true,
  schema,
})

/** The headers of a call, as Standard Webhooks 1.0 names them, and two of ours. */
export const webhookHeaders: Record<string, Parameter> = {
  'webhook-id': header('webhook-id', 'The same on every try: what a receiver knows duplicates by'),
  'webhook-timestamp': header('webhook-timestamp', 'When this try was signed, in seconds since the epoch', {
    type: 'integer',
  }),
  'webhook-signature': header(
    'webhook-signature',
    'One or more signatures of `id.timestamp.body`, separated by spaces: `v1,` and HMAC-SHA256 with the secret, ' +
      '`v1a,` and Ed25519 with the key at /.well-known/webhook-keys.json',
  ),
  'webhook-event': header('webhook-event', 'The kind of the event'),
  'webhook-attempt': header('webhook-attempt', 'The number of this try, from 1', { type: 'integer', minimum: 1 }),
}

/** The calls that registered addresses receive, one for each kind of event. */
export function webhooksOf(events: Record<string, EventType>, names: SchemaNames): Record<string, object> {
  return Object.fromEntries(Object.entries(events).map(([event, type]) => [event, { post: call(event, type, names) }]))
}

function call(event: string, { description, example, schema = objectLike(example) }: EventType, names: SchemaNames) {
  const name = event.split(/\W/).map(capital).join('')
  const body = names.refer({ ...schema, examples: [example] }, [`${name}Event`])
  return {
    operationId: `on${name}`,
    summary: description,
    tags: ['webhooks'],
    // No token: the signature is what a receiver knows us by.
    security: [],
    parameters: Object.keys(webhookHeaders).map((known) => ({ $ref: `#/components/parameters/${known}` })),
    requestBody: {
      required: true,
      description: 'The event; with `payloadStyle: envelope`, inside of `data`',
      content: { 'application/json': { schema: { anyOf: [body, envelopeOf(event, body)] } } },
    },
    responses: {
      '2XX': { description: 'Delivered, when it comes in time' },
      '410': { description: 'Nobody is here any more: the registration is disabled' },
      default: { description: 'Not delivered; it is tried again, and redirects are not followed' },
    },
  }
}

/** The members of an event are known from the example of it, and all of them are sent. */
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
