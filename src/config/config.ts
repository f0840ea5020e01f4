import { join, resolve } from 'node:path'
import { nearest } from '../http/nearest.ts'
import { clientIdPattern, clientIdRule } from '../oauth/clients/validate.ts'
import type { PasswordCost } from '../oauth/users/passwords.ts'
import { ConfigError } from '../startup-errors.ts'
import { loopback, origins } from './address.ts'
import { peopleSettings } from './people-settings.ts'
import { type Basis, placeSettings } from './place.ts'
import { limitSettings } from './rate-limits.ts'
import { reportSettings } from './reports.ts'
import { secretSettings } from './secrets.ts'
import { serverSettings } from './server.ts'
import { choice, Expected, flag, integer, named, optional, type Setting, text, words } from './setting.ts'
import { trustedIssuerSettings } from './token-settings.ts'
import { versionSettings } from './versions.ts'
import { webhookSettings } from './webhook-settings.ts'

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

/** All settings of this release by their names in code. */
const table = (basis: Basis) => ({
  ...placeSettings(basis),
  ...behaviour(basis),
  ...serverSettings(basis.production),
  ...peopleSettings,
  ...reportSettings,
  ...trustedIssuerSettings(basis.production),
  ...versionSettings,
  ...limitSettings(basis.production),
  ...webhookSettings(basis.production),
  accessTokenSeconds: named('PLINTH_ACCESS_TOKEN_TTL', integer(60, 86_400, 900, 'Life of an access token, seconds')),
  bootstrapClientId: named(
    'PLINTH_BOOTSTRAP_CLIENT_ID',
    optional(text('', 'Client with every scope that exists after start', clientIdPattern, clientIdRule)),
  ),
  ...secretSettings,
})

const behaviour = ({ production }: Basis) => ({
  roles: named('PLINTH_ROLES', words(['api', 'auth', 'worker'], 'api,auth,worker', 'What this process does')),
  publicRead: named('PLINTH_PUBLIC_READ', flag(true, 'Whether the catalogue can be read without a token')),
  requireIfMatch: named('PLINTH_REQUIRE_IF_MATCH', flag(false, 'Whether writes must be conditional (428)')),
  corsOrigins: named(
    'PLINTH_CORS_ORIGINS',
    origins(!production, '', 'Origins whose pages may call, such as https://app.example.com'),
  ),
  pdfFont: named('PLINTH_PDF_FONT', optional(text('', 'Font file for scripts that PDF itself does not know'))),
  logLevel: named('PLINTH_LOG_LEVEL', choice(levels, 'info', 'Least severe log line')),
})

type Table = ReturnType<typeof table>
type Values = { readonly [Key in keyof Table]: Table[Key] extends Setting<infer T> ? T : never }

export interface Config extends Values, Readonly<Basis> {
  /** Unknown names that look like settings of this service, for a warning. */
  readonly unknown: readonly string[]
  /** Cost of checking a password. Not a setting: only tests, which check many, lower it. */
  readonly passwordCost?: PasswordCost
}

type Environment = Readonly<Record<string, string | undefined>>
type Named<T> = Setting<T> & { name: string }

/** Parses the environment into a frozen value. Throws `ConfigError`. */
export function readConfig(env: Environment): Config {
  const wrong: string[] = []
  const read = <T>(setting: Named<T>) => readSetting(setting, env, wrong)
  const production = read(profile(env)) === 'production'
  const plain = !production && env.PLINTH_TLS?.trim() === 'off' && !env.PLINTH_TRUSTED_PROXIES?.trim()
  const basis = { production, plain }
  const rows = Object.entries(table(basis))
  const values = Object.fromEntries(rows.map(([key, row]) => [key, read(row as Named<unknown>)])) as unknown as Values
  if (wrong.length === 0) wrong.push(...contradictions(values, basis))
  if (wrong.length > 0) throw new ConfigError(wrong.join('\n'))
  const names = new Set(['PLINTH_PROFILE', ...ofCommands, ...rows.map(([, { name }]) => name)])
  const unknown = Object.keys(env).filter((name) => name.startsWith('PLINTH_') && !names.has(name))
  for (const value of Object.values(values)) Object.freeze(value)
  return Object.freeze({ ...values, ...basis, unknown })
}

/** Settings read by commands that are clients of a service. */
const ofCommands = ['PLINTH_CLIENT_ID', 'PLINTH_CLIENT_SECRET']

const profile = (env: Environment) =>
  named(
    'PLINTH_PROFILE',
    choice(
      ['development', 'production'],
      env.NODE_ENV === 'production' ? 'production' : 'development',
      'development or production: some defaults',
    ),
  )

const secret = /SECRET|KEY$/

/** A printable value: hides secrets and passwords in URLs. */
const shown = (name: string, value: string) =>
  secret.test(name) ? '…' : value.replace(/(:\/\/[^/:@]*:)[^@]*@/, '$1…@')

function readSetting<T>({ name, parse, fallback }: Named<T>, env: Environment, wrong: string[]): T | null {
  const given = env[name]?.trim() || null
  const value = given ?? fallback
  try {
    return value === null ? null : parse(value)
  } catch (error) {
    if (!(error instanceof Expected)) throw error
    wrong.push(`${name}=${shown(name, given ?? '')} is not valid: expected ${error.message}`)
    return null
  }
}

/** Combinations of settings that are valid alone but not together. */
function contradictions(values: Values, basis: Basis): string[] {
  const wrong: string[] = []
  const both = (one: unknown, other: unknown, names: string) => {
    if ((one === null) !== (other === null)) wrong.push(`${names} belong together: expected both or neither`)
  }
  both(values.tlsCertFile, values.tlsKeyFile, 'PLINTH_TLS_CERT_FILE and PLINTH_TLS_KEY_FILE')
  both(values.bootstrapClientId, values.bootstrapClientSecret, 'PLINTH_BOOTSTRAP_CLIENT_ID and _SECRET')
  both(values.smtpUrl, values.smtpFrom, 'PLINTH_SMTP_URL and PLINTH_SMTP_FROM')
  const base = values.baseUrl ?? values.authUrl
  if (values.authUrl !== null && values.authUrl !== base) {
    wrong.push(`PLINTH_AUTH_URL=${values.authUrl} is not valid: expected the origin of PLINTH_BASE_URL`)
  }
  if (values.port === values.httpPort && values.port !== 0 && values.tls === 'on') {
    wrong.push(`PLINTH_HTTP_PORT=${values.httpPort} is not valid: expected another port than PLINTH_PORT, or 0`)
  }
  return [...wrong, ...transportMistakes(values, basis)]
}

/** Plain HTTP is allowed behind a proxy that terminates TLS, and in development for this machine only. */
function transportMistakes({ tls, host, trustedProxies, baseUrl, authUrl }: Values, { production, plain }: Basis) {
  const wrong: string[] = []
  const isLocal = loopback.test(host) || host === '::1'
  if (tls === 'off' && trustedProxies.length === 0 && !(plain && isLocal)) {
    const local = production ? '' : ', or a loopback address as PLINTH_HOST'
    wrong.push(
      `PLINTH_TLS=off is not valid: expected PLINTH_TRUSTED_PROXIES to name the proxy that speaks HTTPS${local}`,
    )
  }
  const base = baseUrl ?? authUrl
  if (base !== null && base.startsWith('http:') !== plain) {
    const because = plain
      ? 'http://, as PLINTH_TLS=off without a proxy'
      : 'https://, unless PLINTH_TLS=off without a proxy'
    wrong.push(`PLINTH_BASE_URL=${base} is not valid: expected ${because} serves plain HTTP`)
  }
  return wrong
}

/** The SQLite file or PostgreSQL server to use. */
export const databaseUrlOf = ({ databaseUrl, dataDir }: Config): string =>
  databaseUrl ?? `file:${join(resolve(dataDir), 'plinth.db')}`

/** The URL at which clients reach the service. */
export const baseUrlOf = ({ baseUrl, authUrl, plain, port }: Config): string =>
  baseUrl ?? authUrl ?? `${plain ? 'http' : 'https'}://localhost:${port}`

/** Storage of report files, as `file:` or `s3:` URL. */
export const resultsUrlOf = ({ resultsUrl, dataDir }: Config): string =>
  resultsUrl ?? `file:${join(resolve(dataDir), 'results')}`

/** A warning for each unknown name that looks like a setting. */
export function unknownSettings(config: Config): string[] {
  const names = ['PLINTH_PROFILE', ...ofCommands, ...Object.values(table(config)).map(({ name }) => name)]
  return config.unknown.map((name) => {
    const meant = nearest(name, names)
    return `${name} is not a setting of this release${meant === undefined ? '' : `: did you mean ${meant}?`}`
  })
}

/** Each setting with its effective value, secrets hidden. */
export function describeSettings(config: Config, env: Environment) {
  return [profile(env), ...Object.values(table(config))].map(({ name, fallback, about }) => {
    const given = env[name]?.trim()
    return { name, about, value: given ? shown(name, given) : (fallback ?? '(unset)') }
  })
}
