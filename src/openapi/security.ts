/** Scopes with what they allow: those of a machine, and those that a person can grant to a client. */
export interface OfferedScopes {
  machine: Record<string, string>
  person: Record<string, string>
}

/** How a caller says who it is: by an access token, however it was had; at the token endpoint as a client. */
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
    // Not `openIdConnect` besides, which generated clients in Java refuse to call with.
    oauth2: {
      type: 'oauth2',
      description: `Access tokens of this service; discovery at ${baseUrl}/.well-known/openid-configuration`,
      flows,
    },
    bearer: {
      type: 'http',
      scheme: 'bearer',
      bearerFormat: 'JWT',
      description: 'The same tokens, however they were had',
    },
    clientBasic: { type: 'http', scheme: 'basic', description: 'The id and the secret of a client (RFC 6749 §2.3.1)' },
  }
}
