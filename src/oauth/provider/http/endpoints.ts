/** The paths of the endpoints, by oidc-provider's names. */
export const endpoints = {
  authorization: '/oauth/authorize',
  token: '/oauth/token',
  revocation: '/oauth/revoke',
  introspection: '/oauth/introspect',
  userinfo: '/oauth/userinfo',
  jwks: '/oauth/jwks',
  end_session: '/oauth/logout',
}

/** Path of login and consent; the id of the interaction follows. */
export const interactionPath = '/oauth/interaction'

/** Path of the page where an invited user sets a password. */
export const invitationPath = '/oauth/invitation'
