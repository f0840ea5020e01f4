import { type Static, type TSchema, Type } from 'typebox'
import { CursorText, Fields, PageLimit } from '../http/pagination.ts'
import { documentedRules, partialResponse } from '../http/partial-schema.ts'

const Instant = Type.String({ format: 'date-time' })
const Addresses = (description: string) =>
  Type.Array(Type.String(), { description, examples: [['https://app.example/cb']] })

/** The schema or null, as one schema: a wrong type is then a single error. */
const OrNull = <T extends TSchema & { type: string }>(schema: T) =>
  Type.Unsafe<Static<T> | null>({ ...schema, type: [schema.type, 'null'] })

/** A non-empty line of text. */
const line = '^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\x00-\\x20\\x7f-\\xa0][^\\x00-\\x1f\\x7f-\\x9f]*$'

const settings = {
  name: Type.String({
    description: 'What people call it, 1 to 200 characters',
    examples: ['Partner'],
    ...documentedRules({ maxLength: 200, pattern: line }),
  }),
  scopes: Type.Array(Type.String(), {
    description: 'What its tokens may have',
    examples: [['reports:read']],
  }),
  grants: Type.Array(Type.String(), {
    description: 'client_credentials, authorization_code, refresh_token, and the deprecated password and implicit',
    examples: [['client_credentials']],
  }),
  redirectUris: Addresses('Where people come back to: https, loopback http, or the scheme of an app; compared exactly'),
  postLogoutRedirectUris: Addresses('Where people may be sent after they logged out'),
  firstParty: Type.Boolean({ description: "The operator's own: nobody is asked for consent", examples: [false] }),
  trusted: Type.Boolean({ description: 'May be told a password, which the grant password needs', examples: [false] }),
  introspectsOthers: Type.Boolean({
    description: 'May introspect the tokens of other clients; all see their own only',
    examples: [false],
  }),
}
const { name, scopes, grants, ...optional } = settings
const ClientType = Type.String({ enum: ['confidential', 'public'], description: 'A public client has no secret' })

/** The body that registers a client. */
export const NewClientBody = Type.Object({
  id: Type.Optional(Type.String({ description: 'Its client_id; made up without it', examples: ['partner'] })),
  type: Type.Optional(Type.String({ ...ClientType, ...documentedRules({ default: 'confidential' }) })),
  ...{ name, scopes, grants },
  ...Type.Partial(Type.Object(optional)).properties,
})

/** The body that changes a client; null resets an optional member to its default. */
export const ClientPatch = Type.Object({
  ...Type.Partial(Type.Object({ name, scopes, grants })).properties,
  ...Object.fromEntries(Object.entries(optional).map(([field, schema]) => [field, Type.Optional(OrNull(schema))])),
})

const client = {
  id: Type.String({ description: 'Its client_id', examples: ['partner'] }),
  type: ClientType,
  ...settings,
  responseTypes: Type.Array(Type.String(), { description: 'What follows from its grants', examples: [[]] }),
  createdAt: Instant,
  updatedAt: Instant,
}
const Secret = Type.String({
  description: 'Its client_secret; shown only here',
  examples: ['q3Jv0W6mF1cYtB5x9uQ2kN8hZ4rT7pLsD1eA6gM3oVw'],
})

/** The representation of a client. */
export const ClientView = partialResponse(Type.Object(client))
/** The only responses that contain the secret. */
export const CreatedClient = Type.Object({ ...client, secret: Type.Optional(Secret) })

const limits = {
  rate: OrNull(
    Type.String({
      description: 'calls/seconds instead of the usual limit',
      examples: ['600/60'],
      ...documentedRules({ pattern: '^[1-9][0-9]{0,6}/[1-9][0-9]{0,4}$' }),
    }),
  ),
  quota: OrNull(
    Type.Integer({
      description: 'Requests a calendar month instead of the usual quota',
      examples: [100_000],
      ...documentedRules({ minimum: 1, maximum: 1_000_000_000 }),
    }),
  ),
  expiresAt: OrNull(
    Type.String({ format: 'date-time', description: 'When it ends by itself', examples: ['2030-01-31T00:00:00.000Z'] }),
  ),
}

/** The body that creates an API key. */
export const NewApiKey = Type.Object({ name, ...Type.Partial(Type.Object(limits)).properties })
/** The body that changes an API key; null resets a limit to the default. */
export const ApiKeyPatch = Type.Partial(Type.Object({ name, ...limits }))

const apiKey = {
  id: Type.String({ examples: ['key_QmFiYmFnZU1hY2hpbmVzMQ'] }),
  name,
  hint: Type.String({ description: 'How the key begins', examples: ['plk_Zm9vYm'] }),
  ...limits,
  lastUsedAt: OrNull(Type.String({ format: 'date-time', description: 'To the minute', examples: [null] })),
  createdAt: Instant,
  updatedAt: Instant,
}

export const ApiKeyView = partialResponse(Type.Object(apiKey))
/** The only response that contains the key. */
export const CreatedApiKey = Type.Object({
  ...apiKey,
  key: Type.String({
    description: 'Shown only here',
    examples: ['plk_Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3BxcnNaCN4rA'],
  }),
})

export const ById = Type.Object({
  id: Type.String({ description: 'As it was named when it was made', examples: ['partner'] }),
})
export const Narrowed = Type.Object({ fields: Fields })
export const Paged = Type.Object({ limit: PageLimit, cursor: CursorText, fields: Fields })
