import { type Content, type HeaderName, headerReferences, type Response } from '../../openapi/components.ts'
import type { HandwrittenOperations } from '../../openapi/document.ts'
import type { Operation } from '../../openapi/operation-types.ts'
import type { Schema } from '../../openapi/schemas.ts'
import { oauthSchemas, tokenForm, tokenRequest, userInfoSchema } from './schemas.ts'

const tags = ['oauth']

const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

const ofJson = (schema: Schema): { content: Content } => ({ content: { 'application/json': { schema } } })

/** Describes an error response from the authorization server (RFC 6749 §5.2). */
const failed = (description: string, headers: readonly HeaderName[] = []): Response => ({
  description,
  ...(headers.length > 0 && { headers: headerReferences(headers) }),
  ...ofJson(ref('OauthError')),
})

/** An error response from the authorization server, or from the service before the request reaches that server. */
const failure: Response = {
  description: 'An internal error (500), an overload (503) or a malformed HTTP request',
  headers: headerReferences(['Retry-After']),
  content: {
    'application/json': { schema: ref('ErrorBody') },
    'application/problem+json': { schema: ref('ErrorBody') },
  },
}

/** The authorization server paths that clients call directly; browsers are redirected to the other paths. */
export interface OauthPaths {
  token: string
  revocation: string
  introspection: string
  userinfo: string
  jwks: string
}

/**
 * Returns the OpenAPI operations of the authorization server. They are written by hand, because its routes declare no
 * schemas. `claims` are the members that the service adds to userinfo.
 */
export function oauthOperations(at: OauthPaths, claims: Record<string, Schema> = {}): HandwrittenOperations {
  return {
    schemas: { ...oauthSchemas, UserInfo: userInfoSchema(claims) },
    responses: { OauthFailure: failure },
    paths: {
      [at.token]: { post: form('createToken', 'Get an access token (RFC 6749)', tokenRequest, 'Token', ['Pragma']) },
      [at.revocation]: { post: form('revokeToken', 'Revoke a token (RFC 7009)', tokenForm, undefined) },
      [at.introspection]: {
        post: form('introspectToken', 'Introspect a token (RFC 7662)', tokenForm, 'Introspection'),
      },
      [at.userinfo]: { get: userInfo('readUserInfo'), post: userInfo('postUserInfo') },
      [at.jwks]: { get: jsonWebKeys },
      '/.well-known/openid-configuration': { get: discovery },
      '/.well-known/oauth-authorization-server': { get: serverMetadata },
      '/.well-known/oauth-protected-resource': { get: resourceMetadata },
    },
  }
}

/** Describes an endpoint that accepts a form from a client. The client authenticates in the form or with HTTP Basic. */
function form(
  operationId: string,
  summary: string,
  request: Schema,
  responseSchema: string | undefined,
  headers: readonly HeaderName[] = [],
): Operation {
  return {
    operationId,
    summary,
    description: 'For registered clients, which authenticate in the form or with HTTP Basic.',
    tags,
    security: [{ clientBasic: [] }, {}],
    requestBody: { required: true, content: { 'application/x-www-form-urlencoded': { schema: request } } },
    responses: {
      '200': {
        description: responseSchema ? 'OK' : 'The token is no longer valid, or never was',
        headers: headerReferences(headers),
        ...(responseSchema && ofJson(ref(responseSchema))),
      },
      '400': failed('The request is invalid or not allowed (RFC 6749 §5.2)', headers),
      '401': failed('The client is unknown or its secret is wrong', ['WWW-Authenticate', ...headers]),
      '413': failed('The body is larger than 56 KiB'),
      default: { $ref: '#/components/responses/OauthFailure' },
    },
  }
}

const userInfo = (operationId: string): Operation => ({
  operationId,
  summary: 'Read the claims of the logged-in user (OpenID Connect Core §5.3)',
  description: 'Requires the scope `openid`; `profile` adds `name`, and `email` adds `email`.',
  tags,
  security: [{ bearer: [] }, { oauth2: ['openid'] }],
  responses: {
    '200': { description: 'OK', ...ofJson(ref('UserInfo')) },
    '400': failed('The request is invalid (RFC 6750 §3.1)', ['WWW-Authenticate']),
    '401': { ...failed('The token is missing or invalid', ['WWW-Authenticate']), ...ofJson(ref('BearerError')) },
    '403': failed('The token lacks the scope openid', ['WWW-Authenticate']),
    default: { $ref: '#/components/responses/OauthFailure' },
  },
})

const document = (operationId: string, summary: string, schema: string, type = 'application/json'): Operation => ({
  operationId,
  summary,
  description: 'Public, and the same for every client.',
  tags,
  security: [],
  responses: {
    '200': { description: 'OK', content: { [type]: { schema: ref(schema) } } },
    '401': { $ref: '#/components/responses/Unauthorized' },
    default: { $ref: '#/components/responses/OauthFailure' },
  },
})

const keySet = 'application/jwk-set+json'
const jsonWebKeys = document('readKeys', 'Read the public keys that verify tokens (RFC 7517)', 'JsonWebKeySet', keySet)
const discovery = document('readDiscovery', 'Read the provider metadata (OpenID Connect Discovery)', 'ServerMetadata')
const serverMetadata = document(
  'readServerMetadata',
  'Read the authorization server metadata (RFC 8414)',
  'ServerMetadata',
)
const resourceMetadata = document(
  'readResourceMetadata',
  'Read the protected resource metadata (RFC 9728)',
  'ResourceMetadata',
)
