import { headerReferences, type Response } from './openapi-components.ts'
import type { Written } from './openapi-document.ts'
import { aToken, oauthSchemas, tokenRequest } from './openapi-oauth-schemas.ts'
import type { Operation } from './openapi-operation.ts'
import type { Schema } from './openapi-schemas.ts'

/** The paths of an authorization server. */
export interface OauthPaths {
  authorization: string
  token: string
  revocation: string
  introspection: string
  jwks: string
}

const text = { type: 'string' }
const headers = headerReferences(['X-Request-Id', 'Cache-Control'])

/**
 * The operations of an authorization server that programs call. Its pages, such as login and logout, are for people,
 * and what is for OpenID Connect clients alone is in the discovery document, which they read instead of this one.
 */
export function oauthOperations({ authorization, token, revocation, introspection, jwks }: OauthPaths): Written {
  return {
    schemas: oauthSchemas,
    paths: {
      [authorization]: { get: authorize },
      [token]: { post: form('createToken', 'Get an access token (RFC 6749)', tokenRequest, 'Token') },
      [revocation]: { post: form('revokeToken', 'Revoke a token (RFC 7009)', aToken, undefined) },
      [introspection]: {
        post: form('introspectToken', 'Ask what a token is worth (RFC 7662)', aToken, 'Introspection'),
      },
      [jwks]: { get: jsonWebKeys },
      '/.well-known/openid-configuration': { get: discovery },
      '/.well-known/oauth-authorization-server': { get: serverMetadata },
      '/.well-known/oauth-protected-resource': { get: resourceMetadata },
    },
  }
}

const query = (name: string, description: string, required = true, schema: Schema = text) => ({
  name,
  in: 'query',
  description,
  ...(required && { required }),
  schema,
})

const tags = ['oauth']
const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

const authorize: Operation = {
  operationId: 'authorize',
  summary: 'Send a person here to log in and consent (RFC 6749 §4.1)',
  tags,
  security: [],
  parameters: [
    query('response_type', 'The authorization code flow', true, { type: 'string', enum: ['code'] }),
    query('client_id', 'The client'),
    query('redirect_uri', 'Where the person is sent back to, exactly as registered'),
    query('scope', 'Scopes, separated by spaces; `openid` for an ID token', false),
    query('state', 'Comes back unchanged', false),
    query('code_challenge', 'PKCE (RFC 7636), required of public clients', false),
    query('code_challenge_method', 'How the challenge was made', false, { type: 'string', enum: ['S256'] }),
    query('nonce', 'Comes back in the ID token', false),
  ],
  responses: {
    '303': {
      description: 'On to the login page, or back to the client with `code` and `state`, or with `error`',
      headers: { ...headers, Location: { description: 'Where to go', schema: text } },
    },
    '400': {
      description: 'A page: the client or its address is not known',
      headers,
      content: { 'text/html': { schema: text } },
    },
  },
}

/** An endpoint that reads a form from a client that says who it is, in the form or by HTTP Basic. */
function form(operationId: string, summary: string, request: Schema, answer: string | undefined): Operation {
  const failed = (description: string) => ({
    description,
    headers,
    content: { 'application/json': { schema: ref('OauthError') } },
  })
  return {
    operationId,
    summary,
    tags,
    security: [{ clientBasic: [] }, {}],
    requestBody: { required: true, content: { 'application/x-www-form-urlencoded': { schema: request } } },
    responses: {
      '200': {
        description: answer ? 'OK' : 'The token is of no use any more',
        headers,
        ...(answer && { content: { 'application/json': { schema: ref(answer) } } }),
      },
      '400': failed('The request was refused (RFC 6749 §5.2)'),
      '401': failed('The client is not known or its secret is wrong'),
      '413': failed('The body is larger than 56 KiB'),
    },
  }
}

const document = (id: string, summary: string, schema: string, type = 'application/json'): Operation => ({
  operationId: id,
  summary,
  tags,
  security: [],
  responses: { '200': { description: 'OK', headers, content: { [type]: { schema: ref(schema) } } } },
})

const keySet = 'application/jwk-set+json'
const jsonWebKeys = document('readKeys', 'Read the public keys of tokens (RFC 7517)', 'JsonWebKeySet', keySet)
const discovery = document('readDiscovery', 'Read the metadata (OpenID Connect Discovery)', 'ServerMetadata')
const serverMetadata = document('readServerMetadata', 'Read the metadata (RFC 8414)', 'ServerMetadata')
const resource = document(
  'readResourceMetadata',
  'Read where tokens for this service come from (RFC 9728)',
  'ResourceMetadata',
)

/** The only one of these documents that is ours, and so has an entity tag. */
const resourceMetadata: Operation = {
  ...resource,
  parameters: [{ $ref: '#/components/parameters/If-None-Match' }],
  responses: {
    '200': { ...(resource.responses['200'] as Response), headers: { ...headers, ...headerReferences(['ETag']) } },
    '304': { $ref: '#/components/responses/NotModified' },
  },
}
