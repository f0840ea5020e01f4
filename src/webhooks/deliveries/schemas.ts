import { Type } from 'typebox'
import { CursorText, Fields, PageLimit } from '../../http/pagination.ts'
import { documentedRules, partialSchema } from '../../http/partial-schema.ts'
import type { EventKinds } from '../event-types.ts'
import { EventName, WebhookParams } from '../schemas.ts'

const Instant = Type.String({ format: 'date-time' })

const Attempt = Type.Object({
  attempt: Type.Integer({ minimum: 1 }),
  startedAt: Instant,
  durationMs: Type.Integer({ minimum: 0 }),
  statusCode: Type.Optional(Type.Integer({ examples: [204] })),
  error: Type.Optional(Type.String({ description: 'Why the attempt failed' })),
  responseStart: Type.Optional(Type.String({ description: 'The first 4 KiB of the response body' })),
  responseHeaders: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      description: 'The response headers of a failed attempt, up to 4 KiB, without cookies',
      examples: [{ 'content-type': 'text/plain', 'retry-after': '30' }],
    }),
  ),
})

const states = ['pending', 'delivered', 'failed']

const Request = Type.Object(
  {
    method: Type.String({ examples: ['POST'] }),
    url: Type.String({ examples: ['https://client.example/hooks/reports'] }),
    headers: Type.Record(Type.String(), Type.String(), {
      description: 'The headers that are the same on every attempt, without the static headers of the webhook',
      examples: [{ 'content-type': 'application/json' }],
    }),
    body: Type.String({ description: 'The text that is signed and sent' }),
  },
  { description: 'The stored request, when a single delivery is read by a caller who may read the event' },
)

/** One delivery in the log. */
export const DeliveryView = partialSchema(
  Type.Object({
    id: Type.String({ examples: ['dlv_QW5hbHl0aWNhbEVuZ2luZV'] }),
    eventId: Type.String({
      description: 'The `webhook-id` header of every attempt',
      examples: ['msg_Rmlyc3RQcm9ncmFtbWVyXw'],
    }),
    event: EventName,
    status: Type.String({ enum: states }),
    test: Type.Optional(Type.Boolean({ description: 'True for a test, which has a single attempt', examples: [true] })),
    request: Type.Optional(Request),
    attempts: Type.Array(Attempt),
    nextAttemptAt: Type.Optional(Instant),
    createdAt: Instant,
    completedAt: Type.Optional(Instant),
    reason: Type.Optional(
      Type.String({
        description: 'Why the delivery ended without another attempt, for example because it was dropped',
      }),
    ),
  }),
)

/** Returns the schema of the optional body of a request for a test delivery. */
export const newTest = (events: EventKinds) =>
  Type.Object({
    event: Type.Optional(
      Type.String({
        enum: Object.keys(events),
        description: 'The event type whose example is sent',
        ...documentedRules({ default: 'webhook.test' }),
        examples: ['report.completed'],
      }),
    ),
  })

const bound = (description: string, example: string) =>
  Type.String({ format: 'date-time', maxLength: 40, description, examples: [example] })
const example = '2026-03-01T12:00:00.000Z'
const later = '2026-03-02T12:00:00.000Z'

/** Returns the schema of the body of a replay request. */
export const newReplay = (events: EventKinds) =>
  Type.Object({
    since: bound('Deliveries created at this instant or later', example),
    until: Type.Optional(bound('Deliveries created before this instant; default: now', later)),
    event: Type.Optional(Type.String({ enum: Object.keys(events), description: 'Only deliveries of this event type' })),
    status: Type.Optional(
      Type.String({
        enum: ['delivered', 'failed'],
        description: 'Only deliveries that ended in this state',
        examples: ['failed'],
      }),
    ),
  })

/** The response to a replay. */
export const Replay = Type.Object({
  count: Type.Integer({ minimum: 0, description: 'Number of deliveries that are sent again', examples: [12] }),
  nextSince: Type.Optional(
    Type.String({
      format: 'date-time',
      description: 'Set if more deliveries match than one replay sends: the `since` of the next replay',
      examples: [example],
    }),
  ),
})

const parameter = (description: string, at: string) =>
  Type.Optional(
    Type.String({ maxLength: 40, description, examples: [at], ...documentedRules({ format: 'date-time' }) }),
  )

export const ByDelivery = Type.Object({
  ...WebhookParams.properties,
  deliveryId: Type.String({ description: 'The id of a delivery', examples: ['dlv_QW5hbHl0aWNhbEVuZ2luZV'] }),
})

/** Query parameters for the delivery log. */
export const DeliveryLogQuery = Type.Object({
  limit: PageLimit,
  cursor: CursorText,
  status: Type.Optional(Type.String({ enum: states, description: 'Only deliveries in this state' })),
  event: Type.Optional(
    Type.String({ maxLength: 100, description: 'Only deliveries of this event type', examples: ['report.completed'] }),
  ),
  since: parameter('Only deliveries created at this instant or later', example),
  until: parameter('Only deliveries created before this instant', later),
  sort: Type.Optional(
    Type.String({
      enum: ['-createdAt', 'createdAt'],
      description: 'Newest first, or oldest first',
      ...documentedRules({ default: '-createdAt' }),
    }),
  ),
  fields: Fields,
})
