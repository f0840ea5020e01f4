import { nearest } from '../http/nearest.ts'
import type { PasswordCost } from '../oauth/users/passwords.ts'
import { ConfigError } from '../startup-errors.ts'
import { loopback } from './address.ts'
import { backupSettings } from './backup.ts'
import { httpSettings } from './http.ts'
import { jobSettings } from './jobs.ts'
import { metricsSettings } from './metrics.ts'
import { oauthSettings } from './oauth.ts'
import { rateLimitSettings } from './rate-limits.ts'
import { reportSettings } from './reports.ts'
import { serviceSettings } from './service.ts'
import { choice, Expected, type Named, named, type Profile, type SettingValues } from './setting.ts'
import { storageErrors, storageSettings } from './storage.ts'
import { streamSettings } from './streams.ts'
import { tracingSettings } from './tracing.ts'
import { userSettings } from './users.ts'
import { versionSettings } from './versions.ts'
import { webhookSettings } from './webhooks.ts'

/** Returns the settings of the service, grouped by the component that uses them. */
export const settingGroups = (profile: Profile) => ({
  service: serviceSettings,
  http: httpSettings(profile),
  storage: storageSettings,
  oauth: oauthSettings(profile),
  users: userSettings,
  reports: reportSettings,
  jobs: jobSettings,
  webhooks: webhookSettings(profile),
  rateLimits: rateLimitSettings(profile),
  versions: versionSettings,
  metrics: metricsSettings,
  backup: backupSettings,
  tracing: tracingSettings,
  streams: streamSettings,
})

export type Groups = ReturnType<typeof settingGroups>
type Settings = { readonly [Group in keyof Groups]: SettingValues<Groups[Group]> }

export interface Config extends Settings, Readonly<Profile> {
  /** Unknown environment variables that look like settings of this service; a warning lists them. */
  readonly unknown: readonly string[]
  /** The cost of password hashing. Not a setting: only tests lower it, because they check many passwords. */
  readonly passwordCost?: PasswordCost
}

export type Environment = Readonly<Record<string, string | undefined>>

/** Parses the environment into a frozen value. Throws a `ConfigError` that lists every invalid setting. */
export function readConfig(env: Environment): Config {
  const errors: string[] = []
  const read = <T>(setting: Named<T>) => readSetting(setting, env, errors)
  const production = read(profileSetting(env)) === 'production'
  const plain = !production && env.PLINTH_TLS?.trim() === 'off' && !env.PLINTH_TRUSTED_PROXIES?.trim()
  const profile = { production, plain }
  const groups = settingGroups(profile)
  const settings = Object.fromEntries(
    Object.entries(groups).map(([name, group]) => [name, frozenValues(group, read)]),
  ) as unknown as Settings
  if (errors.length === 0) errors.push(...contradictions({ ...settings, ...profile }))
  if (errors.length > 0) throw new ConfigError(errors.join('\n'))
  const names = namesOf(groups)
  const unknown = Object.keys(env).filter((name) => name.startsWith('PLINTH_') && !names.includes(name))
  return Object.freeze({ ...settings, ...profile, unknown })
}

const frozenValues = (group: Readonly<Record<string, Named<unknown>>>, read: (setting: Named<unknown>) => unknown) =>
  Object.freeze(Object.fromEntries(Object.entries(group).map(([key, row]) => [key, Object.freeze(read(row))])))

const rowsOf = (groups: Groups): Named<unknown>[] => Object.values(groups).flatMap((group) => Object.values(group))

/** Settings for commands that act as clients of a service. */
const commandSettings = ['PLINTH_CLIENT_ID', 'PLINTH_CLIENT_SECRET']

const namesOf = (groups: Groups) => ['PLINTH_PROFILE', ...commandSettings, ...rowsOf(groups).map(({ name }) => name)]

/** The setting that switches between development and production. */
export const profileSetting = (env: Environment) =>
  named(
    'PLINTH_PROFILE',
    choice(
      ['development', 'production'],
      env.NODE_ENV === 'production' ? 'production' : 'development',
      'development or production; some defaults depend on it',
    ),
  )

/** Returns whether the value of a setting is secret. */
export const isSecret = (name: string) => /(SECRET|KEY|PASSPHRASE|HEADERS)$/.test(name)

/** Returns a printable value. Hides secrets, including those in the query parameters of URLs, and passwords in URLs. */
export const printable = (name: string, value: string) =>
  isSecret(name)
    ? '…'
    : value
        .replace(/(:\/\/[^/:@]*:)[^/?#]*@/, '$1…@')
        .replace(/([?&][^=&]*(?:password|passphrase|secret|token|key)[^=&]*=)[^&#]+/gi, '$1…')

function readSetting<T>({ name, parse, fallback }: Named<T>, env: Environment, errors: string[]): T | null {
  const text = env[name]?.trim() || null
  const value = text ?? fallback
  try {
    return value === null ? null : parse(value)
  } catch (error) {
    if (!(error instanceof Expected)) throw error
    errors.push(`${name}=${printable(name, text ?? '')} is not valid: expected ${error.message}`)
    return null
  }
}

/** Returns an error for each combination of settings that are valid individually but not together. */
function contradictions(config: Settings & Profile): string[] {
  const errors: string[] = []
  const both = (one: unknown, other: unknown, names: string) => {
    if ((one === null) !== (other === null)) errors.push(`${names} belong together: expected both or neither`)
  }
  const { http, oauth, users, metrics } = config
  both(http.tlsCertFile, http.tlsKeyFile, 'PLINTH_TLS_CERT_FILE and PLINTH_TLS_KEY_FILE')
  both(oauth.bootstrapClientId, oauth.bootstrapClientSecret, 'PLINTH_BOOTSTRAP_CLIENT_ID and _SECRET')
  if (config.backup.passphrase !== null && config.backup.passphraseFile !== null) {
    errors.push('PLINTH_BACKUP_PASSPHRASE and PLINTH_BACKUP_PASSPHRASE_FILE exclude each other: expected one of them')
  }
  both(users.smtpUrl, users.smtpFrom, 'PLINTH_SMTP_URL and PLINTH_SMTP_FROM')
  const base = http.baseUrl ?? http.authUrl
  if (http.authUrl !== null && http.authUrl !== base) {
    errors.push(`PLINTH_AUTH_URL=${http.authUrl} is not valid: expected the origin of PLINTH_BASE_URL`)
  }
  if (http.port === http.httpPort && http.port !== 0 && http.tls === 'on') {
    errors.push(`PLINTH_HTTP_PORT=${http.httpPort} is not valid: expected a port other than PLINTH_PORT, or 0`)
  }
  if (metrics.port !== null && [http.port, ...(http.tls === 'on' ? [http.httpPort] : [])].includes(metrics.port)) {
    errors.push(
      `PLINTH_METRICS_PORT=${metrics.port} is not valid: expected a port other than PLINTH_PORT and PLINTH_HTTP_PORT`,
    )
  }
  return [...errors, ...storageErrors(config.storage), ...transportErrors(config)]
}

/**
 * Returns the errors in the transport settings. Plain HTTP is allowed only behind a proxy that terminates TLS or, in
 * development, for clients on this machine.
 */
function transportErrors({ http, production, plain }: Settings & Profile) {
  const errors: string[] = []
  const { tls, host, trustedProxies } = http
  const isLocal = loopback.test(host) || host === '::1'
  if (tls === 'off' && trustedProxies.length === 0 && !(plain && isLocal)) {
    const local = production ? '' : ', or a loopback address as PLINTH_HOST'
    errors.push(
      `PLINTH_TLS=off is not valid: expected PLINTH_TRUSTED_PROXIES to name the proxy that speaks HTTPS${local}`,
    )
  }
  if (tls === 'off' && http.http2) {
    errors.push('PLINTH_HTTP2=true is not valid with PLINTH_TLS=off: expected the proxy to offer HTTP/2')
  }
  const base = http.baseUrl ?? http.authUrl
  if (base !== null && base.startsWith('http:') !== plain) {
    const because = plain
      ? 'http://, as PLINTH_TLS=off without a proxy'
      : 'https://, unless PLINTH_TLS=off without a proxy'
    errors.push(`PLINTH_BASE_URL=${base} is not valid: expected ${because} serves plain HTTP`)
  }
  return errors
}

/** Returns the URL at which clients reach the service. */
export const baseUrlOf = ({ http: { baseUrl, authUrl, port }, plain }: Config): string =>
  baseUrl ?? authUrl ?? `${plain ? 'http' : 'https'}://localhost:${port}`

/** Returns the URL that receives traces; null if none are exported. */
export const tracesUrlOf = ({ tracing: { endpoint, tracesEndpoint, isDisabled } }: Pick<Config, 'tracing'>) => {
  if (isDisabled) return null
  return tracesEndpoint ?? (endpoint && `${endpoint.replace(/\/+$/, '')}/v1/traces`)
}

/** Returns a warning for each unknown variable that looks like a setting. */
export function unknownSettings(config: Config): string[] {
  const names = namesOf(settingGroups(config))
  return config.unknown.map((name) => {
    const similar = nearest(name, names)
    return `${name} is not a setting of this release${similar === undefined ? '' : `: did you mean ${similar}?`}`
  })
}
