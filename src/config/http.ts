import { cidrs, origin, origins } from './address.ts'
import { choice, flag, integer, named, optional, type Profile, text } from './setting.ts'

/** Defines the settings for listeners, connections, TLS and all routes. Some defaults depend on the profile. */
export const httpSettings = ({ production, plain }: Profile) => ({
  host: named('PLINTH_HOST', text(production ? '0.0.0.0' : '127.0.0.1', 'Address to listen on')),
  port: named('PLINTH_PORT', integer(0, 65_535, plain ? 8080 : 8443, 'Port of the service; 0 lets the system choose')),
  httpPort: named('PLINTH_HTTP_PORT', integer(0, 65_535, 8080, 'Port that only redirects to HTTPS; 0 for none')),
  baseUrl: named('PLINTH_BASE_URL', optional(origin(!production, 'URL at which clients reach the service'))),
  authUrl: named(
    'PLINTH_AUTH_URL',
    optional(origin(!production, 'Issuer of the tokens; the same as PLINTH_BASE_URL by default')),
  ),
  tls: named(
    'PLINTH_TLS',
    choice(['on', 'off'], 'on', 'off behind a proxy that terminates TLS, or in development on loopback'),
  ),
  tlsCertFile: named('PLINTH_TLS_CERT_FILE', optional(text('', 'PEM certificate chain; created on the first run'))),
  tlsKeyFile: named('PLINTH_TLS_KEY_FILE', optional(text('', 'PEM private key; created on the first run'))),
  http2: named('PLINTH_HTTP2', flag(false, 'Whether clients may use HTTP/2; needs PLINTH_TLS=on')),
  trustedProxies: named('PLINTH_TRUSTED_PROXIES', cidrs('', 'Proxies whose X-Forwarded-Proto is trusted', false)),
  keepAliveSeconds: named('PLINTH_KEEP_ALIVE', integer(1, 3_600, 75, 'Seconds that an idle connection stays open')),
  requestSeconds: named(
    'PLINTH_REQUEST_TIMEOUT',
    integer(5, 3_600, 30, 'Seconds within which a request must arrive, with its body'),
  ),
  drainSeconds: named(
    'PLINTH_DRAIN',
    integer(0, 15, production ? 5 : 1, 'Seconds for which a stopping service continues to accept requests'),
  ),
  maxConnections: named('PLINTH_MAX_CONNECTIONS', integer(1, 1_000_000, 2_000, 'Open connections of each thread')),
  maxConnectionsPerAddress: named(
    'PLINTH_MAX_CONNECTIONS_PER_ADDRESS',
    integer(1, 1_000_000, production ? 200 : 2_000, 'Open connections of one address, trusted proxies excepted'),
  ),
  publicRead: named('PLINTH_PUBLIC_READ', flag(true, 'Whether public resources can be read without a token')),
  requireIfMatch: named('PLINTH_REQUIRE_IF_MATCH', flag(false, 'Whether writes must be conditional (428)')),
  corsOrigins: named(
    'PLINTH_CORS_ORIGINS',
    origins(!production, '', 'Origins whose pages may send requests, such as https://app.example.com'),
  ),
})
