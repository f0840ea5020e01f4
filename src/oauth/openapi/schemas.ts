import type { Schema } from '../../openapi/schemas.ts'

const text = { type: 'string' }
const url = { type: 'string', format: 'uri' }
const words = { type: 'array', items: text }

const object = (properties: Record<string, Schema>, required: string[]): Schema => ({
  type: 'object',
  properties,
  required,
})

const client = {
  client_id: { type: 'string', description: 'Required unless sent with HTTP Basic' },
  client_secret: { type: 'string', description: 'For confidential clients, unless sent with HTTP Basic' },
}

/** The form fields of a token request. */
export const tokenRequest: Schema = {
  ...object(
    {
      grant_type: { type: 'string', enum: ['client_credentials', 'authorization_code', 'refresh_token', 'password'] },
      ...client,
      scope: { type: 'string', description: 'Space-separated scopes; by default all that the client may have' },
      code: { type: 'string', description: 'For authorization_code' },
      redirect_uri: { type: 'string', description: 'For authorization_code: the same as in the authorization request' },
      code_verifier: { type: 'string', description: 'For authorization_code with PKCE' },
      refresh_token: { type: 'string', description: 'For refresh_token' },
      username: { type: 'string', description: 'For password, which only trusted clients may use: the e-mail address' },
      password: { type: 'string', description: 'For password' },
    },
    ['grant_type'],
  ),
  examples: [{ grant_type: 'client_credentials' }],
}

/** The form fields of an introspection or revocation request. */
export const tokenForm: Schema = {
  ...object(
    {
      token: text,
      token_type_hint: { type: 'string', description: 'access_token or refresh_token; others are ignored' },
      ...client,
    },
    ['token'],
  ),
  examples: [{ token: 'ACCESS_TOKEN' }],
}

const issuer = 'https://localhost:8443'

const serverMetadata = object(
  {
    issuer: url,
    authorization_endpoint: url,
    token_endpoint: url,
    userinfo_endpoint: url,
    jwks_uri: url,
    introspection_endpoint: url,
    revocation_endpoint: url,
    end_session_endpoint: url,
    scopes_supported: words,
    response_types_supported: words,
    response_modes_supported: words,
    grant_types_supported: words,
    subject_types_supported: words,
    id_token_signing_alg_values_supported: words,
    token_endpoint_auth_methods_supported: words,
    revocation_endpoint_auth_methods_supported: words,
    introspection_endpoint_auth_methods_supported: words,
    code_challenge_methods_supported: words,
    claims_supported: words,
  },
  ['issuer', 'authorization_endpoint', 'token_endpoint', 'jwks_uri', 'response_types_supported'],
)

const jsonWebKey = object({ kty: text, kid: text, use: text, alg: text, n: text, e: text }, ['kty', 'kid'])

/** Returns the schema of the userinfo response, with the members that the service adds. */
export function userInfoSchema(claims: Record<string, Schema>): Schema {
  return {
    ...object({ sub: text, name: text, email: text, ...claims }, ['sub']),
    examples: [{ sub: '1', name: 'Ada Lovelace', email: 'ada@example.com' }],
  }
}

/** The authorization server's response schemas. */
export const oauthSchemas: Record<string, Schema> = {
  Token: {
    ...object(
      {
        access_token: text,
        token_type: { type: 'string', const: 'Bearer' },
        expires_in: { type: 'integer', description: 'Lifetime in seconds' },
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
  BearerError: {
    ...object({ error: { ...text, description: 'Absent if no token was sent' }, error_description: text }, [
      'error_description',
    ]),
    examples: [{ error: 'invalid_token', error_description: 'the access token is not valid' }],
  },
  Introspection: {
    ...object({ active: { type: 'boolean' }, client_id: text, sub: text, scope: text, exp: { type: 'integer' } }, [
      'active',
    ]),
    examples: [{ active: false }],
  },
  UserInfo: userInfoSchema({}),
  JsonWebKeySet: {
    ...object({ keys: { type: 'array', items: jsonWebKey } }, ['keys']),
    examples: [{ keys: [{ kty: 'RSA', kid: 'KEY_ID', use: 'sig', alg: 'RS256', n: 'MODULUS', e: 'AQAB' }] }],
  },
  ServerMetadata: {
    ...serverMetadata,
    examples: [
      {
        issuer,
        authorization_endpoint: `${issuer}/oauth/authorize`,
        token_endpoint: `${issuer}/oauth/token`,
        jwks_uri: `${issuer}/oauth/jwks`,
        response_types_supported: ['code'],
      },
    ],
  },
  ResourceMetadata: {
    ...object(
      {
        resource: url,
        authorization_servers: { type: 'array', items: url },
        scopes_supported: words,
        bearer_methods_supported: words,
      },
      ['resource', 'authorization_servers'],
    ),
    examples: [{ resource: issuer, authorization_servers: [issuer] }],
  },
}
