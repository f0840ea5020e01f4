/** Scopes with their descriptions: scopes for machine clients, and scopes that a user can grant to a client. */
export interface OfferedScopes {
  machine: Record<string, string>
  person: Record<string, string>
}

/**
 * Returns the authentication schemes: an access token from any source and, at the token endpoint, client credentials.
 */
export function securitySchemes({ baseUrl, scopes }: { baseUrl: string; scopes: OfferedScopes }) {
  const tokenUrl = `${baseUrl}/oauth/token`
  const flows = {
    clientCredentials: { tokenUrl, scopes: scopes.machine },
    authorizationCode: {
      authorizationUrl: `${baseUrl}/oauth/authorize`,
      tokenUrl,
      refreshUrl: tokenUrl,
      scopes: scopes.person,
    },
  }
  return {
    // `openIdConnect` is omitted, because generated Java clients refuse to make calls if the document contains it.
    oauth2: {
      type: 'oauth2',
      description: `Access tokens of this service; discovery at ${baseUrl}/.well-known/openid-configuration`,
      flows,
    },
    bearer: {
      type: 'http',
      scheme: 'bearer',
      bearerFormat: 'JWT',
      description: 'The same access tokens, however they were obtained',
    },
    clientBasic: { type: 'http', scheme: 'basic', description: 'The id and secret of a client (RFC 6749 §2.3.1)' },
  }
}
