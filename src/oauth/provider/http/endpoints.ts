/** The paths of the endpoints, by oidc-provider's names for them. */
export const endpoints = {
  authorization: '/oauth/authorize',
  token: '/oauth/token',
  revocation: '/oauth/revoke',
  introspection: '/oauth/introspect',
  userinfo: '/oauth/userinfo',
  jwks: '/oauth/jwks',
  end_session: '/oauth/logout',
}

/** Where people log in and give their consent; the id of the interaction follows. */
export const interactionPath = '/oauth/interaction'

/** Where an invited person sets a password. */
export const invitationPath = '/oauth/invitation'
