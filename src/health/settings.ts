import { isIPv6 } from 'node:net'
import { loopback } from '../config/address.ts'
import { baseUrlOf, unknownSettings } from '../config/config.ts'
import { guessableSecrets } from '../config/production-checks.ts'
import { type Check, fail, type HealthContext, pass, warn } from './check.ts'
import { redisCheck } from './redis.ts'

const limitSettings = {
  general: 'PLINTH_RATE_LIMIT',
  anonymous: 'PLINTH_RATE_LIMIT_ANONYMOUS',
  reports: 'PLINTH_RATE_LIMIT_REPORTS',
  webhooks: 'PLINTH_RATE_LIMIT_WEBHOOKS',
  token: 'PLINTH_RATE_LIMIT_TOKEN',
  throttle: 'PLINTH_THROTTLE',
  quotaRequests: 'PLINTH_QUOTA_REQUESTS',
  quotaReports: 'PLINTH_QUOTA_REPORTS',
} as const

/**
 * The shortest prefix allowed for trusted proxies: a larger network contains addresses that the operator does not
 * control.
 */
const minPrefix = { ipv4: 8, ipv6: 16 }

function isTooWide(cidr: string): boolean {
  const [address = '', bits] = cidr.split('/')
  return bits !== undefined && Number(bits) < (isIPv6(address) ? minPrefix.ipv6 : minPrefix.ipv4)
}

const maxTokenSeconds = 3_600

/** Checks for settings that are valid but weaken security or reliability. */
export const settingsChecks: readonly Check<HealthContext>[] = [
  {
    id: 'settings.names',
    area: 'settings',
    title: 'Names of settings',
    rule: 'Warns about variables that begin with `PLINTH_` and are not settings',
    run: ({ config }) => {
      const unknown = unknownSettings(config)
      if (unknown.length === 0) return pass('Every PLINTH_ variable is a setting')
      return warn(unknown.join('; '), 'Correct or remove the variable; `plinth settings` lists all settings')
    },
  },
  {
    id: 'settings.secrets',
    area: 'settings',
    title: 'Strength of secrets',
    rule: 'Fails in production if a secret is shorter than 32 characters or easy to guess; warns in development',
    run: ({ config }) => {
      const weak = guessableSecrets(config)
      if (weak.length === 0) return pass('No secret in the settings is short or easy to guess')
      const cure = 'Use a random value, such as the output of `openssl rand -hex 32`'
      return (config.production ? fail : warn)(`${weak.join(', ')} can be guessed`, cure)
    },
  },
  {
    id: 'settings.bootstrap-client',
    area: 'settings',
    title: 'Bootstrap client',
    rule: 'Warns in production while the client with every scope is configured',
    run: ({ config: { oauth, production } }) => {
      if (oauth.bootstrapClientId === null) return pass('Not configured')
      if (!production) return pass(`${oauth.bootstrapClientId}, in development`)
      return warn(
        `${oauth.bootstrapClientId} has every scope`,
        'Register clients with the scopes that they need, remove PLINTH_BOOTSTRAP_CLIENT_ID and _SECRET, and run ' +
          `\`plinth clients revoke ${oauth.bootstrapClientId}\``,
      )
    },
  },
  {
    id: 'settings.base-url',
    area: 'settings',
    title: 'Public URL',
    rule: 'Fails in production if it is not set, or is a URL of this machine only',
    run: ({ config }) => {
      const url = baseUrlOf(config)
      const isLocal = loopback.test(new URL(url).hostname)
      if (!config.production || !isLocal) return pass(url)
      return fail(
        `${url} does not reach the service from other machines, and is the issuer of its tokens`,
        'Set PLINTH_BASE_URL to the public https:// URL of the service',
      )
    },
  },
  {
    id: 'settings.limits',
    area: 'settings',
    title: 'Rate limits and quotas',
    rule: 'Warns if a limit is `off`',
    run: ({ config: { rateLimits } }) => {
      const off = Object.entries(limitSettings).filter(
        ([key]) => rateLimits[key as keyof typeof limitSettings] === null,
      )
      if (off.length === 0) return pass('All limits are on')
      const names = off.map(([, name]) => name).join(', ')
      return warn(`${names}: off`, 'Set a limit that no correct client reaches, or remove the setting for its default')
    },
  },
  redisCheck,
  {
    id: 'settings.cors',
    area: 'settings',
    title: 'CORS origins',
    rule: 'Warns about `http://` origins',
    run: ({ config: { http } }) => {
      const plain = http.corsOrigins.filter((origin) => origin.startsWith('http:'))
      if (plain.length > 0) {
        return warn(`${plain.join(', ')} may read responses`, 'Remove http:// origins from PLINTH_CORS_ORIGINS')
      }
      return pass(http.corsOrigins.length === 0 ? 'None' : http.corsOrigins.join(', '))
    },
  },
  {
    id: 'settings.proxies',
    area: 'settings',
    title: 'Trusted proxies',
    rule: 'Fails if a network is wider than /8, or /16 with IPv6',
    run: ({ config: { http } }) => {
      const wide = http.trustedProxies.filter(isTooWide)
      if (wide.length === 0) return pass(http.trustedProxies.length === 0 ? 'None' : http.trustedProxies.join(', '))
      return fail(
        `Anyone in ${wide.join(', ')} can forge the client's address and X-Forwarded-Proto`,
        'List only the addresses of your proxies in PLINTH_TRUSTED_PROXIES',
      )
    },
  },
  {
    id: 'settings.webhooks',
    area: 'settings',
    title: 'Targets of webhooks',
    rule: 'Warns in production about `http://` targets and private networks',
    run: ({ config: { webhooks, production } }) => {
      const { allowHttp, allowCidrs } = webhooks
      const open = [
        ...(allowHttp ? ['PLINTH_WEBHOOK_ALLOW_HTTP allows http:// URLs'] : []),
        ...(allowCidrs.length > 0 ? [`PLINTH_WEBHOOK_ALLOW_CIDRS allows ${allowCidrs.join(', ')}`] : []),
      ]
      if (open.length === 0) return pass('https:// URLs in public networks')
      if (!production) return pass(`${open.join('; ')}, in development`)
      return warn(open.join('; '), 'Remove the setting, or allow only the addresses of your own endpoints')
    },
  },
  {
    id: 'settings.token-lifetime',
    area: 'settings',
    title: 'Access token lifetime',
    rule: 'Warns above an hour',
    run: ({ config: { oauth } }) => {
      const seconds = oauth.accessTokenSeconds
      if (seconds <= maxTokenSeconds) return pass(`${seconds} seconds`)
      return warn(`${seconds} seconds`, 'Set PLINTH_ACCESS_TOKEN_TTL to 3600 or less; clients can refresh their tokens')
    },
  },
  {
    id: 'settings.metrics',
    area: 'settings',
    title: 'Metrics listener',
    rule: 'Warns if it listens on an address other than loopback, because it requires no token',
    run: ({ config: { metrics } }) => {
      if (metrics.port === null) return pass('Off; GET /metrics requires the scope admin')
      const isLocal = loopback.test(metrics.host) || metrics.host === '::1'
      if (isLocal) return pass(`${metrics.host}:${metrics.port}`)
      return warn(
        `${metrics.host}:${metrics.port} serves metrics without a token`,
        'Let only your monitoring system reach this port, or set PLINTH_METRICS_HOST=127.0.0.1',
      )
    },
  },
]
