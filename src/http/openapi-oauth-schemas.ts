import type { Schema } from './openapi-schemas.ts'

const text = { type: 'string' }
const url = { type: 'string', format: 'uri' }

const object = (properties: Record<string, Schema>, required: string[]): Schema => ({
  type: 'object',
  properties,
  required,
})

const client = { client_id: text, client_secret: text }

/** The form that the token endpoint reads. */
export const tokenRequest = object(
  {
    grant_type: { type: 'string', enum: ['client_credentials', 'authorization_code', 'refresh_token'] },
    ...client,
    scope: { type: 'string', description: 'Scopes, separated by spaces; without it, all that the client may have' },
    code: { type: 'string', description: 'For authorization_code' },
    redirect_uri: { type: 'string', description: 'For authorization_code, as it was sent before' },
    code_verifier: { type: 'string', description: 'For authorization_code with PKCE' },
    refresh_token: { type: 'string', description: 'For refresh_token' },
  },
  ['grant_type'],
)

/** The form that names a token. */
export const aToken = object({ token: text, token_type_hint: text, ...client }, ['token'])

/** What an authorization server answers with. */
export const oauthSchemas: Record<string, Schema> = {
  Token: {
    ...object(
      {
        access_token: text,
        token_type: { type: 'string', const: 'Bearer' },
        expires_in: { type: 'integer', description: 'Seconds' },
        scope: text,
        refresh_token: text,
        id_token: { type: 'string', description: 'A JWT; only with the scope openid' },
      },
      ['access_token', 'token_type', 'expires_in'],
    ),
    examples: [{ access_token: 'ACCESS_TOKEN', token_type: 'Bearer', expires_in: 900, scope: 'reports:read' }],
  },
  OauthError: {
    ...object({ error: text, error_description: text }, ['error']),
    examples: [{ error: 'invalid_client', error_description: 'client authentication failed' }],
  },
  Introspection: {
    ...object({ active: { type: 'boolean' }, client_id: text, sub: text, scope: text, exp: { type: 'integer' } }, [
      'active',
    ]),
    examples: [{ active: false }],
  },
  JsonWebKeySet: {
    ...object({ keys: { type: 'array', items: { type: 'object' } } }, ['keys']),
    examples: [{ keys: [] }],
  },
  ServerMetadata: {
    ...object({ issuer: url, authorization_endpoint: url, token_endpoint: url, jwks_uri: url }, ['issuer', 'jwks_uri']),
    examples: [{ issuer: 'https://localhost:8443', jwks_uri: 'https://localhost:8443/oauth/jwks' }],
  },
  ResourceMetadata: {
    ...object({ resource: url, authorization_servers: { type: 'array', items: url } }, ['resource']),
    examples: [{ resource: 'https://localhost:8443', authorization_servers: ['https://localhost:8443'] }],
  },
}
