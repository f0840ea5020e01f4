import { Type } from 'typebox'
import { CursorText, Fields, PageLimit } from '../../http/pagination.ts'
import { documentedRules, partialResponse } from '../../http/partial-schema.ts'
import type { EventKinds } from '../event-types.ts'
import { EventName, WebhookParams } from '../schemas.ts'

const Instant = Type.String({ format: 'date-time' })

const Attempt = Type.Object({
  attempt: Type.Integer({ minimum: 1 }),
  startedAt: Instant,
  durationMs: Type.Integer({ minimum: 0 }),
  statusCode: Type.Optional(Type.Integer({ examples: [204] })),
  error: Type.Optional(Type.String({ description: 'Why it does not count as delivered' })),
  responseStart: Type.Optional(Type.String({ description: 'At most 4 KiB of the answer' })),
})

const states = ['pending', 'delivered', 'failed']

/** One delivery in the log. */
export const DeliveryView = partialResponse(
  Type.Object({
    id: Type.String({ examples: ['dlv_QW5hbHl0aWNhbEVuZ2luZV'] }),
    eventId: Type.String({ description: 'The webhook-id of every try', examples: ['msg_Rmlyc3RQcm9ncmFtbWVyXw'] }),
    event: EventName,
    status: Type.String({ enum: states }),
    test: Type.Optional(Type.Boolean({ description: 'True for a test, which is tried once', examples: [true] })),
    attempts: Type.Array(Attempt),
    nextAttemptAt: Type.Optional(Instant),
    createdAt: Instant,
    completedAt: Type.Optional(Instant),
    reason: Type.Optional(
      Type.String({ description: 'Why it ended without a further try, such as that it was dropped' }),
    ),
  }),
)

/** The optional body of a test. */
export const newTest = (events: EventKinds) =>
  Type.Object({
    event: Type.Optional(
      Type.String({
        enum: Object.keys(events),
        description: 'Whose example is sent',
        ...documentedRules({ default: 'webhook.test' }),
        examples: ['report.completed'],
      }),
    ),
  })

const bound = (description: string, example: string) =>
  Type.String({ format: 'date-time', maxLength: 40, description, examples: [example] })
const example = '2026-03-01T12:00:00.000Z'
const later = '2026-03-02T12:00:00.000Z'

/** The body of a replay. */
export const newReplay = (events: EventKinds) =>
  Type.Object({
    since: bound('Deliveries made at this instant or later', example),
    until: Type.Optional(bound('Deliveries made before this instant; all later ones without it', later)),
    event: Type.Optional(Type.String({ enum: Object.keys(events), description: 'Only of this kind of event' })),
    status: Type.Optional(
      Type.String({ enum: ['delivered', 'failed'], description: 'Only those that ended so', examples: ['failed'] }),
    ),
  })

/** The response to a replay. */
export const Replay = Type.Object({
  count: Type.Integer({ minimum: 0, description: 'How many deliveries are sent again', examples: [12] }),
  nextSince: Type.Optional(
    Type.String({
      format: 'date-time',
      description: 'More match than one replay takes: ask again from this instant on',
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
  deliveryId: Type.String({ description: 'As the log names it', examples: ['dlv_QW5hbHl0aWNhbEVuZ2luZV'] }),
})

/** Query parameters of the delivery log. */
export const DeliveryLogQuery = Type.Object({
  limit: PageLimit,
  cursor: CursorText,
  status: Type.Optional(Type.String({ enum: states, description: 'Only deliveries in this state' })),
  event: Type.Optional(
    Type.String({ maxLength: 100, description: 'Only of this kind of event', examples: ['report.completed'] }),
  ),
  since: parameter('Only deliveries made at this instant or later', example),
  until: parameter('Only deliveries made before this instant', later),
  sort: Type.Optional(
    Type.String({
      enum: ['-createdAt', 'createdAt'],
      description: 'The newest first, or the oldest',
      ...documentedRules({ default: '-createdAt' }),
    }),
  ),
  fields: Fields,
})
