import { type HeaderName, headerReferences } from '../../openapi/components.ts'
import type { HandwrittenOperations } from '../../openapi/document.ts'
import type { Operation } from '../../openapi/operation-types.ts'
import type { Schema } from '../../openapi/schemas.ts'
import { failed, failure, ofJson, ref, tags } from './parts.ts'
import { aToken, oauthSchemas, tokenRequest } from './schemas.ts'

/** The paths of an authorization server that clients call directly; browsers are redirected to the others. */
export interface OauthPaths {
  token: string
  revocation: string
  introspection: string
  userinfo: string
  jwks: string
}

/** The OpenAPI operations of an authorization server, whose routes declare no schemas. */
export function oauthOperations(at: OauthPaths): HandwrittenOperations {
  return {
    schemas: oauthSchemas,
    responses: { OauthFailure: failure },
    paths: {
      [at.token]: { post: form('createToken', 'Get an access token (RFC 6749)', tokenRequest, 'Token', ['Pragma']) },
      [at.revocation]: { post: form('revokeToken', 'Revoke a token (RFC 7009)', aToken, undefined) },
      [at.introspection]: {
        post: form('introspectToken', 'Ask what a token is worth (RFC 7662)', aToken, 'Introspection'),
      },
      [at.userinfo]: { get: userInfo('readUserInfo'), post: userInfo('postUserInfo') },
      [at.jwks]: { get: jsonWebKeys },
      '/.well-known/openid-configuration': { get: discovery },
      '/.well-known/oauth-authorization-server': { get: serverMetadata },
      '/.well-known/oauth-protected-resource': { get: resourceMetadata },
    },
  }
}

/** An endpoint that reads a form from a client, which authenticates in the form or by HTTP Basic. */
function form(
  operationId: string,
  summary: string,
  request: Schema,
  answer: string | undefined,
  headers: readonly HeaderName[] = [],
): Operation {
  return {
    operationId,
    summary,
    description: 'For registered clients, which say who they are in the form or by HTTP Basic.',
    tags,
    security: [{ clientBasic: [] }, {}],
    requestBody: { required: true, content: { 'application/x-www-form-urlencoded': { schema: request } } },
    responses: {
      '200': {
        description: answer ? 'OK' : 'The token is of no use any more',
        headers: headerReferences(headers),
        ...(answer && ofJson(ref(answer))),
      },
      '400': failed('The request was refused (RFC 6749 §5.2)', headers),
      '401': failed('The client is not known or its secret is wrong', ['WWW-Authenticate', ...headers]),
      '413': failed('The body is larger than 56 KiB'),
      default: { $ref: '#/components/responses/OauthFailure' },
    },
  }
}

const userInfo = (operationId: string): Operation => ({
  operationId,
  summary: 'Read who logged in (OpenID Connect Core §5.3)',
  description: 'Requires the scope `openid`; `profile` and `email` add the members of these names.',
  tags,
  security: [{ bearer: [] }, { oauth2: ['openid'] }],
  responses: {
    '200': { description: 'OK', ...ofJson(ref('UserInfo')) },
    '400': failed('The request was refused (RFC 6750 §3.1)', ['WWW-Authenticate']),
    '401': { ...failed('The token is missing or wrong', ['WWW-Authenticate']), ...ofJson(ref('BearerError')) },
    '403': failed('The token lacks the scope openid', ['WWW-Authenticate']),
    default: { $ref: '#/components/responses/OauthFailure' },
  },
})

const document = (operationId: string, summary: string, schema: string, type = 'application/json'): Operation => ({
  operationId,
  summary,
  description: 'Open to everybody, and the same for all.',
  tags,
  security: [],
  responses: {
    '200': { description: 'OK', content: { [type]: { schema: ref(schema) } } },
    '401': { $ref: '#/components/responses/Unauthorized' },
    default: { $ref: '#/components/responses/OauthFailure' },
  },
})

const keySet = 'application/jwk-set+json'
const jsonWebKeys = document('readKeys', 'Read the public keys of tokens (RFC 7517)', 'JsonWebKeySet', keySet)
const discovery = document('readDiscovery', 'Read the metadata (OpenID Connect Discovery)', 'ServerMetadata')
const serverMetadata = document('readServerMetadata', 'Read the metadata (RFC 8414)', 'ServerMetadata')
const resourceMetadata = document(
  'readResourceMetadata',
  'Read where tokens for this service come from (RFC 9728)',
  'ResourceMetadata',
)
