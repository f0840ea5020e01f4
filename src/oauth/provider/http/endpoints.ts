/** Endpoint paths, keyed by oidc-provider's route names. */
export const endpoints = {
  authorization: '/oauth/authorize',
  token: '/oauth/token',
  revocation: '/oauth/revoke',
  introspection: '/oauth/introspect',
  userinfo: '/oauth/userinfo',
  jwks: '/oauth/jwks',
  end_session: '/oauth/logout',
}

/** Path prefix of the login and consent pages, followed by the interaction id. */
export const interactionPath = '/oauth/interaction'

/** Path of the page where an invited user sets a password. */
export const invitationPath = '/oauth/invitation'
