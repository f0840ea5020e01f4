import { type Static, type TSchema, Type } from 'typebox'
import { Fields } from '../http/pagination.ts'
import { documentedRules, partialSchema } from '../http/partial-schema.ts'
import { Line } from '../http/text-rules.ts'
import { type EventKinds, eventPatterns, reportEvents } from './event-types.ts'

const Instant = Type.String({ format: 'date-time' })
const PayloadStyle = Type.String({
  enum: ['plain', 'envelope'],
  description: '`plain` sends the event body itself, `envelope` wraps it in {type, timestamp, data}',
})
const Headers = Type.Record(Type.String(), Type.String({ maxLength: 1_024 }), {
  maxProperties: 20,
  // The pattern allows reserved headers: a later check rejects them and lists them in the error response.
  ...documentedRules({ propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$" } }),
  description: 'Static headers sent with every call, in addition to those that the service sets',
  examples: [{ 'x-environment': 'staging' }],
})

/** An event type. Not an enum, because the log may contain event types that the service no longer has. */
export const EventName = Type.String({ examples: ['report.completed'] })

const own = {
  event: Type.String({
    maxLength: 100,
    description: 'An event type of /api/event-types, all types of a noun (`report.*`), or `*` for all',
    examples: ['report.completed'],
  }),
  callbackUrl: Type.String({
    maxLength: 2_048,
    description: 'Absolute https URL that receives the POST requests',
    ...documentedRules({ format: 'uri' }),
    examples: ['https://client.example/hooks/reports'],
  }),
  description: Type.Optional(Line(0, 500, { examples: ['Tells the billing system'] })),
  headers: Type.Optional(Headers),
  payloadStyle: Type.Optional(PayloadStyle),
}

const eventOf = (events: EventKinds) =>
  Type.String({
    maxLength: 100,
    description: 'The event type or pattern to subscribe to',
    ...documentedRules({ enum: eventPatterns(events) }),
    examples: ['report.completed'],
  })

interface Registrable {
  events: EventKinds
  /** The served API versions, oldest first. */
  versions: readonly string[]
}

const versionOf = (versions: readonly string[], keywords: object = {}) =>
  Type.Optional(
    Type.String({
      maxLength: 10,
      description: 'The API version whose field names the events of resources have; by default the newest one',
      ...documentedRules({ enum: versions, ...keywords }),
      examples: versions.slice(-1),
    }),
  )

/** Returns the schema of the body of a registration. */
export const newWebhook = ({ events, versions }: Registrable) =>
  Type.Object({
    ...own,
    event: eventOf(events),
    payloadStyle: Type.Optional(Type.String({ ...PayloadStyle, ...documentedRules({ default: 'plain' }) })),
    version: versionOf(versions, { default: versions.at(-1) }),
  })

/** Makes a schema nullable without a union, so that a wrong type causes only one error. */
const OrNull = <T extends TSchema & { type: string }>(schema: T) =>
  Type.Unsafe<Static<T> | null>({ ...schema, type: [schema.type, 'null'] })

const HeaderChanges = Type.Unsafe<Record<string, string | null> | null>({
  ...Type.Record(Type.String(), OrNull(Type.String({ maxLength: 1_024 }))),
  ...{ type: ['object', 'null'], maxProperties: 40 },
  description: 'Static headers to set; null removes one header, or all of them',
  examples: [{ 'x-environment': 'production', 'x-team': null }],
})

/** Returns the schema of the body of an update to a webhook: a merge patch (RFC 7396). */
export const webhookPatch = ({ events, versions }: Registrable) =>
  Type.Object({
    event: Type.Optional(eventOf(events)),
    callbackUrl: Type.Optional(own.callbackUrl),
    description: Type.Optional(OrNull(Line(0, 500, { examples: ['Tells the billing system'] }))),
    headers: Type.Optional(HeaderChanges),
    payloadStyle: Type.Optional(PayloadStyle),
    version: versionOf(versions),
    status: Type.Optional(
      Type.String({ enum: ['active', 'paused'], description: 'Only active webhooks are called', examples: ['paused'] }),
    ),
  })

const members = {
  id: Type.String({ examples: ['whk_Q2hhcmxlcyBCYWJiYWdlXw'] }),
  ...own,
  payloadStyle: PayloadStyle,
  version: Type.Optional(
    Type.String({
      description: 'The API version whose field names the events of resources have; without one, the newest',
      examples: ['v2'],
    }),
  ),
  status: Type.String({ enum: ['active', 'paused', 'disabled'] }),
  statusReason: Type.Optional(Type.String({ description: 'Why the service disabled the webhook' })),
  previousSecretExpiresAt: Type.Optional(
    Type.String({ format: 'date-time', description: 'Until then, calls are also signed with the previous secret' }),
  ),
  createdAt: Instant,
}
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw5vZ2HYI0Qk4='

const forAdministrators = (description: string, example: string) =>
  Type.Optional(Type.String({ description: `${description}; visible only to administrators`, examples: [example] }))

/** A webhook's representation. */
export const WebhookView = partialSchema(
  Type.Object({
    ...members,
    ownerClient: forAdministrators('The client that registered the webhook', 'cli_Q2hhcmxlcyBCYWJiYWdlXw'),
    ownerSubject: forAdministrators('The user that the client acted for, or the client itself', '42'),
  }),
)

/** The body of the responses that contain the webhook's secret. No other response contains it. */
export const CreatedWebhook = Type.Object({
  ...members,
  secret: Type.String({ description: 'Signs the calls; returned only in this response', examples: [secret] }),
})

/** An event type that webhooks can subscribe to. */
export const EventTypeView = partialSchema(
  Type.Object({
    event: EventName,
    description: Type.String(),
    example: Type.Unknown({ description: 'An example of the body, as it is sent' }),
    schema: Type.Unknown({ description: 'The JSON Schema (2020-12) of the body' }),
  }),
  { examples: eventTypeViews(reportEvents) },
)

/** Returns the list of event types. */
export function eventTypeViews(kinds: EventKinds) {
  return Object.entries(kinds).map(([event, { description, example, schema }]) => ({
    ...{ event, description, example, schema },
  }))
}

/** The account's secret. */
export const Secret = Type.Object({
  secret: Type.String({ description: 'Signs calls to the `webhookUrl` of a report request', examples: [secret] }),
  previousSecretExpiresAt: members.previousSecretExpiresAt,
})

/** The optional body of a secret rotation. */
export const Rotation = Type.Object({
  immediate: Type.Optional(
    Type.Boolean({ description: 'Stop signing with the old secret at once, because it has leaked', examples: [false] }),
  ),
})

/** A JWK set (RFC 7517 §5) of Ed25519 public keys (RFC 8037). */
export const KeySet = Type.Object({
  keys: Type.Array(
    Type.Object({
      kty: Type.String({ examples: ['OKP'] }),
      crv: Type.String({ examples: ['Ed25519'] }),
      x: Type.String({ examples: ['11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo'] }),
      kid: Type.String({ examples: ['kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'] }),
      alg: Type.String({ examples: ['EdDSA'] }),
      use: Type.String({ examples: ['sig'] }),
    }),
  ),
})

export const WebhookParams = Type.Object({
  id: Type.String({ description: 'The id from the registration', examples: ['whk_Q2hhcmxlcyBCYWJiYWdlXw'] }),
})
export const WebhookQuery = Type.Object({ fields: Fields })
