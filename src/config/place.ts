import { cidrs, origin, url } from './address.ts'
import { choice, integer, named, optional, text } from './setting.ts'

/** What the defaults of settings depend on. */
export interface Basis {
  production: boolean
  /** Whether the service speaks plain HTTP to clients on this machine, without a proxy. */
  plain: boolean
}

const resultsForm = /^(file:.+|s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w./-]*)?)$/
const placesOfResults = 'file:/path or s3://bucket/prefix'
/** Addresses, listeners and storage. */
export const placeSettings = ({ production, plain }: Basis) => ({
  definitionFile: named(
    'PLINTH_DEFINITION',
    optional(text('', 'File of the service to serve; users, products and books without it')),
  ),
  dataDir: named('PLINTH_DATA_DIR', text('./data', 'Folder of the database, results, keys and certificates')),
  host: named('PLINTH_HOST', text(production ? '0.0.0.0' : '127.0.0.1', 'Address to listen on')),
  port: named('PLINTH_PORT', integer(0, 65_535, plain ? 8080 : 8443, 'Port of the service; 0 lets the system choose')),
  httpPort: named('PLINTH_HTTP_PORT', integer(0, 65_535, 8080, 'Port that only redirects to HTTPS; 0 for none')),
  baseUrl: named('PLINTH_BASE_URL', optional(origin(!production, 'Where clients reach the service'))),
  authUrl: named('PLINTH_AUTH_URL', optional(origin(!production, 'Issuer of the tokens; the base address'))),
  tls: named(
    'PLINTH_TLS',
    choice(['on', 'off'], 'on', 'off behind a proxy that speaks HTTPS, or in development on loopback'),
  ),
  tlsCertFile: named('PLINTH_TLS_CERT_FILE', optional(text('', 'PEM certificate chain; made on first run'))),
  tlsKeyFile: named('PLINTH_TLS_KEY_FILE', optional(text('', 'PEM private key; made on first run'))),
  trustedProxies: named('PLINTH_TRUSTED_PROXIES', cidrs('', 'Proxies whose X-Forwarded-Proto is believed', false)),
  databaseUrl: named(
    'DATABASE_URL',
    optional(
      url('A SQLite file in the data folder without it', /^(postgres(ql)?:\/\/|file:).+/, 'postgres://… or file:…'),
    ),
  ),
  resultsUrl: named('PLINTH_RESULTS_URL', optional(text('', 'Where report files live', resultsForm, placesOfResults))),
})
