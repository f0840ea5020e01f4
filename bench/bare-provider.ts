import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import Provider from 'oidc-provider'

/**
 * The reference of the token row: `oidc-provider` as it comes, with its adapter in memory and a key of the service's
 * kind. Told by BARE_PORT, BARE_BITS (of the RSA key), BARE_CLIENT and BARE_SECRET.
 */
const { BARE_PORT = '', BARE_BITS = '', BARE_CLIENT = '', BARE_SECRET = '' } = process.env
const issuer = `https://localhost:${BARE_PORT}`
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: Number(BARE_BITS) })
const scope = 'products:write reports:read'
const provider = new Provider(issuer, {
  clients: [
    {
      ...{ client_id: BARE_CLIENT, client_secret: BARE_SECRET, scope },
      ...{ grant_types: ['client_credentials'], response_types: [], redirect_uris: [] },
    },
  ],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig' }] },
  scopes: scope.split(' '),
  routes: { token: '/oauth/token' },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => issuer,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        audience: issuer,
        scope,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
})
provider.proxy = true
const server = createServer(provider.callback())
server.listen(Number(BARE_PORT), '127.0.0.1', () => process.send?.('ready'))
process.on('SIGTERM', () => process.exit(0))
