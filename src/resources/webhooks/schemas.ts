import { Type } from 'typebox'
import { Line } from '../text.ts'
import { type EventKinds, eventPatterns } from './event-types.ts'

const Instant = Type.String({ format: 'date-time' })
const PayloadStyle = Type.String({
  enum: ['plain', 'envelope'],
  description: 'The event body itself, or {type, timestamp, data} around it',
})
const Headers = Type.Record(Type.String(), Type.String({ maxLength: 1_024 }), {
  maxProperties: 20,
  description: 'Sent with every call, besides those the service sets',
})

const own = {
  event: Type.String({ maxLength: 100, description: 'One of /api/event-types, all of a noun (`report.*`), or `*`' }),
  callbackUrl: Type.String({ maxLength: 2_048, description: 'Receives the POST calls; an absolute https URL' }),
  description: Type.Optional(Line(0, 500)),
  headers: Type.Optional(Headers),
  payloadStyle: Type.Optional(PayloadStyle),
}

/** The body of a registration. */
export const newWebhook = (events: EventKinds) =>
  Type.Object({
    ...own,
    event: Type.String({ maxLength: 100, description: `One of ${eventPatterns(events).join(', ')}` }),
  })

const shown = {
  id: Type.String(),
  ...own,
  status: Type.String({ enum: ['active', 'paused', 'disabled'] }),
  statusReason: Type.String({ description: 'Why the service disabled it' }),
  createdAt: Instant,
}

/** A registration as it is shown, every field optional because `fields` may leave it out. */
export const Webhook = Type.Partial(Type.Object(shown))

/** The only answer that carries the secret. */
export const CreatedWebhook = Type.Object({
  ...shown,
  statusReason: Type.Optional(shown.statusReason),
  secret: Type.String({ description: 'Signs the calls; shown only here' }),
})

const Attempt = Type.Object({
  attempt: Type.Integer(),
  startedAt: Instant,
  durationMs: Type.Integer(),
  statusCode: Type.Optional(Type.Integer()),
  error: Type.Optional(Type.String({ description: 'Why it does not count as delivered' })),
  responseStart: Type.Optional(Type.String({ description: 'At most 4 KiB of the answer' })),
})

/** One delivery of the log. */
export const Delivery = Type.Partial(
  Type.Object({
    id: Type.String(),
    eventId: Type.String({ description: 'The webhook-id of every try' }),
    event: Type.String(),
    status: Type.String({ enum: ['pending', 'delivered', 'failed'] }),
    attempts: Type.Array(Attempt),
    nextAttemptAt: Instant,
    createdAt: Instant,
    completedAt: Instant,
  }),
)

/** One kind of event that can be registered for. */
export const EventKind = Type.Partial(
  Type.Object({
    event: Type.String(),
    description: Type.String(),
    example: Type.Unknown({ description: 'A body as it is sent' }),
  }),
)

export const Secret = Type.Object({
  secret: Type.String({ description: 'Signs calls to the webhookUrl of a request' }),
})

/** A JWK set (RFC 7517 §5) of Ed25519 public keys (RFC 8037). */
export const KeySet = Type.Object({
  keys: Type.Array(
    Type.Object({
      kty: Type.String(),
      crv: Type.String(),
      x: Type.String(),
      kid: Type.String(),
      alg: Type.String(),
      use: Type.String(),
    }),
  ),
})

const limit = Type.Optional(Type.Integer({ minimum: 1, description: 'Items to return: 50 without it, 200 at most' }))
const fields = Type.Optional(Type.String({ description: 'Names of the fields to return' }))
const cursor = Type.Optional(
  Type.String({ maxLength: 2_000, description: 'Where the page starts, from a Link header' }),
)

export const ById = Type.Object({ id: Type.String() })
export const Narrowed = Type.Object({ fields })
export const Limited = Type.Object({ limit, fields })
export const Paged = Type.Object({ limit, cursor, fields })
