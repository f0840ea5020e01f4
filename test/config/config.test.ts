import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { backupsUrlOf } from '../../src/config/backup.ts'
import { baseUrlOf, readConfig } from '../../src/config/config.ts'
import { describeSettings } from '../../src/config/describe.ts'
import { guessableSecrets } from '../../src/config/production-checks.ts'
import { databaseUrlOf, poolerUrlOf, resultsUrlOf } from '../../src/config/storage.ts'
import { ConfigError } from '../../src/startup-errors.ts'

type Environment = Record<string, string>

const message = (env: Environment): string => {
  try {
    readConfig(env)
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error.message
  }
  return ''
}

/** Returns the value of a setting. Its key is `group.name`. */
const settingOf = (env: Partial<Environment>, key: string): unknown =>
  key.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], readConfig(env))

interface Row {
  /** The group and the name of the setting in the code. */
  key: string
  development: unknown
  /** The default in production, if different. */
  production?: unknown
  valid: [text: string, value: unknown][]
  /** Invalid values, each with the description of valid values that the error message must contain. */
  invalid: [text: string, expected: RegExp][]
}

const flag: Pick<Row, 'valid' | 'invalid'> = {
  valid: [
    ['true', true],
    ['false', false],
  ],
  invalid: ['yes', '1', 'TRUE'].map((text) => [text, /one of true, false$/]),
}

const integer = (least: number, most: number): Pick<Row, 'valid' | 'invalid'> => ({
  valid: [
    [String(least), least],
    [String(most), most],
    [` ${most} `, most],
  ],
  invalid: [least - 1, most + 1, 'x', '1.5', '1e3', '0x10', '-1'].map((text) => [
    String(text),
    new RegExp(`a whole number from ${least} to ${most}$`),
  ]),
})

const collector: Omit<Row, 'key'> = {
  development: null,
  valid: ['http://localhost:4318', 'https://collector.example/v1/traces'].map((text) => [text, text]),
  invalid: ['localhost:4318', 'grpc://x:4317', 'http://'].map((text) => [text, /http:\/\/… or https:\/\/…$/]),
}

const namesAndValues: Omit<Row, 'key'> = {
  development: null,
  valid: [['a=1, b = x%20y=z,', { a: '1', b: 'x y=z' }]],
  invalid: ['a', '=1', 'a=1, =2', 'a=%zz'].map((text) => [text, /name=value pairs, comma-separated, with percent-/]),
}

const cidrs: Pick<Row, 'valid' | 'invalid'> = {
  valid: [
    ['10.0.0.0/8, 192.0.2.7,fd00::/8', ['10.0.0.0/8', '192.0.2.7', 'fd00::/8']],
    [',', []],
  ],
  invalid: [
    ['proxy.example.com', /\(proxy\.example\.com is neither\)$/],
    ['10.0.0.0/33', /\(10\.0\.0\.0\/33 is neither\)$/],
    ['10.0.0.1, ::1/129', /\(::1\/129 is neither\)$/],
    ['10.0.0.0/8/8', /neither/],
    ['10.0.0.0/', /neither/],
  ],
}

const origin: Pick<Row, 'valid' | 'invalid'> = {
  valid: [
    ['https://api.example.com', 'https://api.example.com'],
    ['https://API.example.com:443/', 'https://api.example.com'],
    ['https://[::1]:8443', 'https://[::1]:8443'],
  ],
  invalid: [
    'http://a.example',
    'https://a.example/api',
    'https://a.example?x',
    'https://me@a.example',
    'a.example',
  ].map((text) => [text, /an https:\/\/ address without a path, such as https:\/\/api\.example\.com$/]),
}

const anyText = (text: string): Pick<Row, 'valid' | 'invalid'> => ({ valid: [[text, text]], invalid: [] })

const schedule = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
const hex = 'ab'.repeat(32)
const base64 = Buffer.alloc(32, 7).toString('base64')

const rows: Record<string, Row> = {
  PLINTH_DEFINITION: { key: 'service.definitionFile', development: null, ...anyText('./service.ts') },
  PLINTH_DATA_DIR: { key: 'storage.dataDir', development: './data', ...anyText('/var/lib/plinth') },
  PLINTH_HOST: { key: 'http.host', development: '127.0.0.1', production: '0.0.0.0', ...anyText('::1') },
  PLINTH_PORT: { key: 'http.port', development: 8_443, ...integer(0, 65_535) },
  PLINTH_HTTP_PORT: { key: 'http.httpPort', development: 8_080, ...integer(0, 65_535) },
  PLINTH_METRICS_HOST: { key: 'metrics.host', development: '127.0.0.1', ...anyText('::1') },
  PLINTH_METRICS_PORT: { key: 'metrics.port', development: null, ...integer(1, 65_535) },
  PLINTH_REQUEST_TIMEOUT: { key: 'http.requestSeconds', development: 30, ...integer(5, 3_600) },
  PLINTH_KEEP_ALIVE: { key: 'http.keepAliveSeconds', development: 75, ...integer(1, 3_600) },
  PLINTH_DRAIN: { key: 'http.drainSeconds', development: 1, production: 5, ...integer(0, 15) },
  PLINTH_MAX_CONNECTIONS: { key: 'http.maxConnections', development: 2_000, ...integer(1, 1_000_000) },
  PLINTH_MAX_CONNECTIONS_PER_ADDRESS: {
    ...{ key: 'http.maxConnectionsPerAddress', development: 2_000, production: 200, ...integer(1, 1_000_000) },
  },
  PLINTH_BASE_URL: { key: 'http.baseUrl', development: null, ...origin },
  PLINTH_AUTH_URL: { key: 'http.authUrl', development: null, ...origin },
  PLINTH_TLS: {
    key: 'http.tls',
    development: 'on',
    valid: [['off', 'off']],
    invalid: [['no', /one of on, off$/]],
  },
  PLINTH_HTTP2: { key: 'http.http2', development: false, ...flag },
  PLINTH_TRUSTED_PROXIES: {
    ...{ key: 'http.trustedProxies', development: [], ...cidrs },
    invalid: [...cidrs.invalid, ['10.0.0.1, 0.0.0.0/0', /not of all \(0\.0\.0\.0\/0\)$/]],
  },
  PLINTH_SIGNING_ALGORITHM: {
    key: 'oauth.signingAlgorithm',
    development: 'RS256',
    valid: [
      ['ES256', 'ES256'],
      ['EdDSA', 'EdDSA'],
    ],
    invalid: [['HS256', /one of RS256, ES256, EdDSA$/]],
  },
  PLINTH_JWT_SHARED_SECRET: {
    key: 'oauth.jwtSharedSecret',
    development: null,
    valid: [['s'.repeat(32), 's'.repeat(32)]],
    invalid: [['s'.repeat(31), /32 to 1024 bytes$/]],
  },
  PLINTH_TRUSTED_ISSUER: {
    key: 'oauth.trustedIssuer',
    development: null,
    valid: ['https://id.example', 'https://id.example/', 'https://id.example/realms/one'].map((text) => [text, text]),
    invalid: [
      'id.example',
      'http://id.example',
      'http://localhost.evil.example',
      'https://me@id.example',
      'https://id.example/?x',
      'https://id.example/#x',
    ].map((text) => [text, /an https:\/\/ address without query and fragment/]),
  },
  PLINTH_TRUSTED_ISSUER_CIDRS: {
    key: 'oauth.trustedIssuerCidrs',
    development: ['127.0.0.0/8', '::1/128'],
    production: [],
    ...cidrs,
  },
  PLINTH_TRUSTED_SCOPES: {
    key: 'oauth.trustedScopes',
    development: null,
    valid: [['users:read,admin', ['users:read', 'admin']]],
    invalid: [
      ['users:read books:write', /scopes, comma-separated/],
      [',', /scopes, comma-separated/],
    ],
  },
  DATABASE_URL: {
    key: 'storage.databaseUrl',
    development: null,
    valid: ['postgres://db.example/plinth', 'postgresql://db.example/plinth', 'file:/x/y.db'].map((text) => [
      text,
      text,
    ]),
    invalid: ['mysql://db.example/plinth', '/x/y.db', 'file:', 'postgres://[::1/x', 'postgres://db:99999/x'].map(
      (text) => [text, /postgres:\/\/… or file:…$/],
    ),
  },
  PLINTH_DATABASE_DIRECT_URL: {
    key: 'storage.directUrl',
    development: null,
    valid: [['postgres://db.example/plinth', 'postgres://db.example/plinth']],
    invalid: [
      ['file:/x/y.db', /postgres:\/\/…$/],
      ['mysql://db.example/plinth', /postgres:\/\/…$/],
    ],
  },
  PLINTH_AUDIT_MONTHS: {
    ...{ key: 'storage.auditMonths', development: 13 },
    valid: [
      ['1', 1],
      ['999', 999],
      ['off', null],
    ],
    invalid: ['0', '1000', '1.5', '-1', 'none'].map((text) => [text, /a whole number from 1 to 999, or off$/]),
  },
  PLINTH_RESULTS_URL: {
    key: 'storage.resultsUrl',
    development: null,
    valid: ['file:/x/results', 's3://bucket', 's3://my.bucket-1/a/b'].map((text) => [text, text]),
    invalid: ['ftp://x', 's3://', 's3://A_b/x', 's3://bucket/a?b'].map((text) => [text, /s3:\/\/bucket\/prefix$/]),
  },
  PLINTH_ROLES: {
    key: 'service.roles',
    development: ['api', 'auth', 'worker'],
    valid: [['worker, api', ['worker', 'api']]],
    invalid: [
      ['web', /a comma-separated list of api, auth, worker$/],
      [',', /a comma-separated list of api, auth, worker$/],
    ],
  },
  PLINTH_CONSOLE: {
    key: 'service.console',
    development: 'on',
    valid: [
      ['on', 'on'],
      ['off', 'off'],
    ],
    invalid: ['true', 'On', '1'].map((text) => [text, /on, off$/]),
  },
  PLINTH_PUBLIC_READ: { key: 'http.publicRead', development: true, ...flag },
  PLINTH_REQUIRE_IF_MATCH: { key: 'http.requireIfMatch', development: false, ...flag },
  PLINTH_CORS_ORIGINS: {
    key: 'http.corsOrigins',
    development: [],
    valid: [
      [
        'https://app.example.com, https://b.example.com:8443',
        ['https://app.example.com', 'https://b.example.com:8443'],
      ],
      ['http://localhost:5173,http://127.0.0.1:3000', ['http://localhost:5173', 'http://127.0.0.1:3000']],
      ['http://[::1]:5173,http://app.localhost', ['http://[::1]:5173', 'http://app.localhost']],
    ],
    invalid: [
      ...['*', 'null', 'app.example.com', 'https://*.example.com', 'https://app.example.com/', 'https://a.b/path'],
      ...['https://App.example.com', 'https://app.example.com:443', 'https://user@app.example.com', 'ftp://a.b'],
      ...['http://app.example.com', 'http://localhost.example.com', 'https://', 'https://a.b?x', 'https://a.b#x'],
    ].map((text) => [text, /origins such as https:\/\/app\.example\.com .*is none\)$/]),
  },
  PLINTH_ACCESS_TOKEN_TTL: { key: 'oauth.accessTokenSeconds', development: 900, ...integer(60, 86_400) },
  // test/version-lifecycle.test.ts covers all rejected plans.
  PLINTH_VERSIONS: {
    key: 'versions.plans',
    development: {},
    valid: [['{"v2":{"status":"active"}}', { v2: { status: 'active' } }]],
    invalid: [['v1', /expected JSON such as/]],
  },
  PLINTH_RESULT_TTL: { key: 'reports.resultSeconds', development: 604_800, ...integer(60, 31_536_000) },
  PLINTH_PDF_FONT: { key: 'reports.pdfFont', development: null, ...anyText('/fonts/wide.ttf') },
  PLINTH_MAX_WAITERS: { key: 'reports.maxWaiters', development: 20, ...integer(1, 1_000) },
  PLINTH_MAX_STREAMS: { key: 'streams.perAccount', development: 20, ...integer(1, 10_000) },
  PLINTH_STREAM_HISTORY: { key: 'streams.historySeconds', development: 3_600, ...integer(60, 604_800) },
  PLINTH_MAX_UPLOADS: { key: 'reports.maxUploads', development: 4, ...integer(1, 16) },
  PLINTH_MAX_DOWNLOADS: { key: 'reports.maxDownloads', development: 10, ...integer(1, 256) },
  PLINTH_TASK_TTL: { key: 'reports.taskSeconds', development: 2_592_000, ...integer(60, 31_536_000) },
  PLINTH_JOB_CONCURRENCY: { key: 'jobs.jobConcurrency', development: 10, ...integer(1, 500) },
  PLINTH_JOB_TTL: { key: 'jobs.jobSeconds', development: 2_592_000, ...integer(60, 31_536_000) },
  PLINTH_WEBHOOK_SCHEDULE: {
    key: 'webhooks.schedule',
    development: schedule,
    valid: [['0, 0.5,60', [0, 0.5, 60]]],
    invalid: ['soon', '-1', '604801', ',', Array(31).fill('1').join(',')].map((text) => [text, /1 to 30 delays/]),
  },
  PLINTH_WEBHOOK_TIMEOUT: { key: 'webhooks.timeoutSeconds', development: 15, ...integer(1, 120) },
  PLINTH_WEBHOOK_IN_FLIGHT: { key: 'webhooks.inFlight', development: 4, ...integer(1, 1_000) },
  PLINTH_WEBHOOK_RATE: { key: 'webhooks.rate', development: 10, ...integer(0, 1_000) },
  PLINTH_WEBHOOK_MAX_WAITING: { key: 'webhooks.maxWaiting', development: 100_000, ...integer(100, 10_000_000) },
  PLINTH_WEBHOOK_ALLOW_CIDRS: {
    key: 'webhooks.allowCidrs',
    development: ['127.0.0.0/8', '::1/128'],
    production: [],
    ...cidrs,
  },
  PLINTH_WEBHOOK_ALLOW_HTTP: { key: 'webhooks.allowHttp', development: true, production: false, ...flag },
  PLINTH_MASTER_KEY: {
    key: 'storage.masterKey',
    development: null,
    valid: [hex, base64, base64.replace('=', '')].map((text) => [text, text]),
    invalid: ['short', hex.slice(2), `${hex}00`].map((text) => [text, /32 bytes as 64 hex digits or base64$/]),
  },
  PLINTH_NEW_MASTER_KEY: {
    key: 'storage.newMasterKey',
    development: null,
    valid: [hex, base64, base64.replace('=', '')].map((text) => [text, text]),
    invalid: ['short', hex.slice(2), `${hex}00`].map((text) => [text, /32 bytes as 64 hex digits or base64$/]),
  },
  PLINTH_BACKUP: {
    key: 'backup.schedule',
    development: null,
    valid: ['0 3 * * *', '*/15 0-6 1,15 * MON-FRI'].map((text) => [text, text]),
    invalid: ['daily', '@daily', '0 3 * *', '0 0 3 * * *', '0 3 * * *;'].map((text) => [
      text,
      /five cron fields, such as 0 3/,
    ]),
  },
  PLINTH_BACKUP_KEEP: { key: 'backup.keep', development: 7, ...integer(1, 1_000) },
  PLINTH_BACKUP_URL: {
    key: 'backup.url',
    development: null,
    valid: ['file:/x/backups', 's3://bucket/a/b'].map((text) => [text, text]),
    invalid: ['/x/backups', 's3://'].map((text) => [text, /file:\/path or s3:\/\/bucket\/prefix$/]),
  },
  PLINTH_BACKUP_PASSPHRASE: { key: 'backup.passphrase', development: null, ...anyText('correct horse battery') },
  PLINTH_BACKUP_PASSPHRASE_FILE: { key: 'backup.passphraseFile', development: null, ...anyText('/run/secrets/backup') },
  OTEL_EXPORTER_OTLP_ENDPOINT: { key: 'tracing.endpoint', ...collector },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: { key: 'tracing.tracesEndpoint', ...collector },
  OTEL_EXPORTER_OTLP_HEADERS: { key: 'tracing.headers', ...namesAndValues },
  OTEL_RESOURCE_ATTRIBUTES: { key: 'tracing.resourceAttributes', ...namesAndValues },
  OTEL_EXPORTER_OTLP_TIMEOUT: { key: 'tracing.timeoutMs', development: 10_000, ...integer(1, 60_000) },
  OTEL_SERVICE_NAME: { key: 'tracing.serviceName', development: null, ...anyText('shop') },
  OTEL_TRACES_SAMPLER: {
    ...{ key: 'tracing.sampler', development: 'parentbased_always_on', valid: [['traceidratio', 'traceidratio']] },
    invalid: [['jaeger_remote', /one of always_on, always_off, traceidratio, parentbased_always_on, /]],
  },
  OTEL_TRACES_SAMPLER_ARG: {
    ...{ key: 'tracing.samplerRatio', development: 1 },
    valid: ['0', '0.25', '.5', '1'].map((text) => [text, Number(text)]),
    invalid: ['1.1', '-1', 'x', '1e-3', '0x1'].map((text) => [text, /a number from 0 to 1$/]),
  },
  OTEL_SDK_DISABLED: { key: 'tracing.isDisabled', development: false, ...flag },
  PLINTH_LOG_LEVEL: {
    key: 'service.logLevel',
    development: 'info',
    valid: [['silent', 'silent']],
    invalid: [['verbose', /one of fatal, error, warn, info, debug, trace, silent$/]],
  },
  PLINTH_THREADS: { key: 'service.threads', development: null, ...integer(1, 64) },
  PLINTH_REQUEST_LOG_RATE: { key: 'service.requestLogRate', development: 100, ...integer(0, 10_000) },
  PLINTH_PRODUCT_NAME: {
    key: 'users.productName',
    development: 'Plinth',
    valid: [['Ada & Söhne', 'Ada & Söhne']],
    invalid: ['a\tb', 'x'.repeat(61)].map((text) => [text, /1 to 60 characters$/]),
  },
  PLINTH_ACCENT_COLOR: {
    key: 'users.accentColor',
    development: '#2552c8',
    valid: [['#C00123', '#C00123']],
    invalid: ['red', '#fff', '#2552c8;}', '2552c8'].map((text) => [text, /a colour such as #2552c8$/]),
  },
}

/** Settings that are only valid together. */
const pairs: [Environment, Record<string, string>][] = [
  [
    { PLINTH_TLS_CERT_FILE: 'own.crt', PLINTH_TLS_KEY_FILE: 'own.key' },
    { 'http.tlsCertFile': 'own.crt', 'http.tlsKeyFile': 'own.key' },
  ],
  [
    { PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot secret' },
    { 'oauth.bootstrapClientId': 'boot', 'oauth.bootstrapClientSecret': 'boot secret' },
  ],
  [
    { PLINTH_SMTP_URL: 'smtp://user:pass@mail.example.com:587', PLINTH_SMTP_FROM: 'plinth@example.com' },
    { 'users.smtpUrl': 'smtp://user:pass@mail.example.com:587', 'users.smtpFrom': 'plinth@example.com' },
  ],
]

const off = /calls\/seconds, such as 6000\/60, with at most 86400 seconds, or off$/
const rate = (key: string, calls: number): (typeof rows)[string] => ({
  ...{ key, development: { calls: 10 * calls, seconds: 60 }, production: { calls, seconds: 60 } },
  valid: [
    ['off', null],
    ['5/86400', { calls: 5, seconds: 86_400 }],
  ],
  invalid: [
    ['600', off],
    ['0/60', off],
    ['600/0', off],
    ['600/86401', off],
    ['-1/60', off],
    ['on', off],
  ],
})
const quota = (key: string, most: number): (typeof rows)[string] => ({
  ...{ key, development: most },
  valid: [
    ['off', null],
    ['1', 1],
  ],
  invalid: [
    ['0', /a whole number from 1 to 999999999, or off$/],
    ['1.5', /a whole number/],
  ],
})
Object.assign(rows, {
  PLINTH_RATE_LIMIT: rate('rateLimits.general', 6_000),
  PLINTH_RATE_LIMIT_ANONYMOUS: rate('rateLimits.anonymous', 60),
  PLINTH_RATE_LIMIT_REPORTS: rate('rateLimits.reports', 30),
  PLINTH_RATE_LIMIT_WEBHOOKS: rate('rateLimits.webhooks', 30),
  PLINTH_RATE_LIMIT_TOKEN: rate('rateLimits.token', 20),
  PLINTH_THROTTLE: {
    ...{ key: 'rateLimits.throttle', development: { calls: 2_000, seconds: 1, burst: 4_000 } },
    production: { calls: 200, seconds: 1, burst: 400 },
    valid: [
      ['off', null],
      ['3/2:5', { calls: 3, seconds: 2, burst: 5 }],
    ],
    invalid: [
      ['20/1', /calls\/seconds:burst, such as 200\/1:400, or off$/],
      ['20/1:0', /calls\/seconds:burst/],
    ],
  },
  PLINTH_QUOTA_REQUESTS: quota('rateLimits.quotaRequests', 10_000_000),
  PLINTH_QUOTA_REPORTS: quota('rateLimits.quotaReports', 100_000),
  REDIS_URL: {
    ...{ key: 'rateLimits.redisUrl', development: null },
    valid: [
      ['redis://localhost:6379/1', 'redis://localhost:6379/1'],
      ['rediss://:secret@cache.example', 'rediss://:secret@cache.example'],
    ],
    invalid: [
      ['localhost:6379', /redis:\/\/host:port\/0 or rediss:\/\/…$/],
      ['redis://localhost/cache', /redis:\/\//],
      ['redis://localhost:99999', /redis:\/\//],
      ['redis://[::1', /redis:\/\//],
    ],
  },
})

describe('readConfig', () => {
  for (const [name, { key, development, production = development, valid, invalid }] of Object.entries(rows)) {
    it(`${name} has its defaults, accepts valid values and rejects invalid ones`, () => {
      assert.deepEqual(settingOf({}, key), development)
      assert.deepEqual(settingOf({ PLINTH_PROFILE: 'production' }, key), production)
      assert.deepEqual(settingOf({ [name]: '  ' }, key), development, 'blank is unset')
      for (const [text, value] of valid) {
        // PLINTH_AUTH_URL must have the same origin as PLINTH_BASE_URL.
        const base = name === 'PLINTH_AUTH_URL' ? { PLINTH_BASE_URL: text } : {}
        assert.deepEqual(settingOf({ ...base, [name]: text }, key), value)
      }
      for (const [text, expected] of invalid) {
        const said = message({ [name]: text })
        assert.match(said, expected)
        const shown = /KEY$|SECRET$|HEADERS$/.test(name) ? '…' : text
        assert.ok(said.startsWith(`${name}=${shown} is not valid: expected `), said)
        assert.equal(said.split('\n').length, 1)
      }
    })
  }

  it('has only settings that these tests cover', () => {
    const names = describeSettings(readConfig({}), {}).map(({ name }) => name)
    assert.deepEqual(
      names.sort(),
      ['PLINTH_PROFILE', ...Object.keys(rows), ...pairs.flatMap(([env]) => Object.keys(env))].sort(),
    )
  })

  for (const [env, values] of pairs) {
    const [one, other] = Object.keys(env) as [string, string]
    it(`${one} and ${other} are accepted together, but rejected if only one is set`, () => {
      for (const [key, value] of Object.entries(values)) {
        assert.equal(settingOf(env, key), value)
        assert.equal(settingOf({}, key), null)
      }
      for (const name of [one, other])
        assert.match(message({ [name]: env[name] as string }), /belong together: expected both or neither$/)
    })
  }

  it('PLINTH_SMTP_URL must be an smtp: or smtps: URL, and PLINTH_SMTP_FROM a plain e-mail address', () => {
    const said = message({
      PLINTH_SMTP_URL: 'https://mail.example.com',
      PLINTH_SMTP_FROM: 'Plinth <plinth@example.com>',
    })
    assert.match(said, /^PLINTH_SMTP_URL=\S+ is not valid: expected smtp:/)
    assert.match(said, /\nPLINTH_SMTP_FROM=.* is not valid: expected an e-mail address$/)
  })

  it('rejects an invalid PLINTH_BOOTSTRAP_CLIENT_ID or _SECRET and states the allowed characters', () => {
    const wrong = message({ PLINTH_BOOTSTRAP_CLIENT_ID: 'a b', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'geheim✓' })
    assert.equal(
      wrong,
      'PLINTH_BOOTSTRAP_CLIENT_ID=a b is not valid: expected 1 to 128 characters of A-Z a-z 0-9 . _ ~ -, and not digits or dots alone\n' +
        'PLINTH_BOOTSTRAP_CLIENT_SECRET=… is not valid: expected 1 to 256 printable ASCII characters',
    )
    for (const id of ['7', '.', '..', 'a/b']) {
      const said = message({ PLINTH_BOOTSTRAP_CLIENT_ID: id, PLINTH_BOOTSTRAP_CLIENT_SECRET: 'geheim' })
      assert.match(said, /^PLINTH_BOOTSTRAP_CLIENT_ID=\S+ is not valid: expected 1 to 128 characters/)
    }
  })

  const random = (form: 'hex' | 'base64') => randomBytes(32).toString(form)
  const guessable = {
    PLINTH_BOOTSTRAP_CLIENT_SECRET: ['boot secret', 'k'.repeat(31), 'k'.repeat(32), 'change-me-'.repeat(4)],
    PLINTH_JWT_SHARED_SECRET: [
      's'.repeat(32),
      'abcdefghijklmnopqrstuvwxyz012345',
      'a-string-secret-at-least-256-bits-long',
      'qwertyuiop'.repeat(4),
    ],
    PLINTH_MASTER_KEY: ['0'.repeat(64), '0123456789abcdef'.repeat(4), `${'A'.repeat(43)}=`],
  }
  for (const [name, values] of Object.entries(guessable)) {
    it(`${name} is reported if it is easy to guess, but not if it is random`, () => {
      const others = { PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: random('hex') }
      const weakIn = (value: string) => guessableSecrets(readConfig({ ...others, [name]: value }))
      for (const value of values) assert.deepEqual(weakIn(value), [name], value)
      for (let turn = 0; turn < 1_000; turn++) assert.deepEqual(weakIn(random(turn % 2 ? 'hex' : 'base64')), [])
    })
  }

  it('rejects CORS origins over plain HTTP in production, even local ones', () => {
    const env = { PLINTH_PROFILE: 'production', PLINTH_CORS_ORIGINS: 'http://localhost:5173' }
    assert.match(
      message(env),
      /^PLINTH_CORS_ORIGINS=\S+ is not valid: expected origins such as \S+, comma-separated \(/,
    )
  })

  it('PLINTH_PROFILE defaults to production only if NODE_ENV is production, and rejects other names', () => {
    assert.equal(readConfig({}).production, false)
    assert.equal(readConfig({ NODE_ENV: 'production' }).production, true)
    assert.equal(readConfig({ NODE_ENV: 'test' }).production, false)
    assert.equal(readConfig({ NODE_ENV: 'production', PLINTH_PROFILE: 'development' }).production, false)
    assert.equal(
      message({ PLINTH_PROFILE: 'staging' }),
      'PLINTH_PROFILE=staging is not valid: expected one of development, production',
    )
  })

  it('rejects a PLINTH_AUTH_URL whose origin is not that of PLINTH_BASE_URL', () => {
    const elsewhere = { PLINTH_BASE_URL: 'https://api.example.com', PLINTH_AUTH_URL: 'https://id.example.com' }
    const refusal = 'PLINTH_AUTH_URL=https://id.example.com is not valid: expected the origin of PLINTH_BASE_URL'
    assert.equal(message(elsewhere), refusal)
  })

  describe('PLINTH_TLS=off', () => {
    const off = { PLINTH_TLS: 'off' }
    const proxied = { ...off, PLINTH_TRUSTED_PROXIES: '10.0.0.7' }

    it('serves http://localhost:8080 in development on a loopback address', () => {
      for (const host of ['127.0.0.1', '::1', 'localhost']) {
        const config = readConfig({ ...off, PLINTH_HOST: host })
        assert.deepEqual([config.plain, config.http.port, baseUrlOf(config)], [true, 8_080, 'http://localhost:8080'])
      }
      const moved = readConfig({ ...off, PLINTH_PORT: '3000' })
      assert.equal(baseUrlOf(moved), 'http://localhost:3000')
      const named = readConfig({ ...off, PLINTH_BASE_URL: 'http://plinth.localhost:8080' })
      assert.equal(baseUrlOf(named), 'http://plinth.localhost:8080')
    })

    it('keeps the https:// base URL behind a trusted proxy, in both profiles', () => {
      for (const PLINTH_PROFILE of ['development', 'production']) {
        const config = readConfig({ ...proxied, PLINTH_PROFILE })
        assert.deepEqual([config.plain, config.http.port, baseUrlOf(config)], [false, 8_443, 'https://localhost:8443'])
      }
    })

    it('is rejected without a trusted proxy, except in development on a loopback address', () => {
      const needsProxy = /^PLINTH_TLS=off is not valid: expected PLINTH_TRUSTED_PROXIES to name the proxy/
      for (const PLINTH_HOST of ['127.0.0.1', '0.0.0.0']) {
        assert.match(message({ ...off, PLINTH_PROFILE: 'production', PLINTH_HOST }), needsProxy)
      }
      const said = message({ ...off, PLINTH_HOST: '0.0.0.0' })
      assert.match(said, needsProxy)
      assert.match(said, /, or a loopback address as PLINTH_HOST$/)
    })

    it('is rejected with PLINTH_HTTP2=true', () => {
      assert.match(message({ ...proxied, PLINTH_HTTP2: 'true' }), /^PLINTH_HTTP2=true is not valid with PLINTH_TLS=off/)
    })

    it('requires an http://localhost base URL, or an https:// one behind a proxy', () => {
      assert.match(message({ ...off, PLINTH_BASE_URL: 'https://api.example.com' }), /expected http:\/\//)
      for (const env of [{}, proxied]) {
        assert.match(message({ ...env, PLINTH_BASE_URL: 'http://localhost:8080' }), /expected https:\/\//)
      }
      const outside = { ...off, PLINTH_BASE_URL: 'http://api.example.com' }
      assert.match(message(outside), /expected an https:\/\/ address/)
    })
  })

  it('lists all invalid values at once, before it checks which settings belong together', () => {
    const said = message({ PLINTH_PORT: 'x', PLINTH_TLS: 'x', PLINTH_LOG_LEVEL: 'x', PLINTH_TLS_KEY_FILE: 'x' })
    assert.deepEqual(
      said.split('\n').map((line) => line.split('=')[0]),
      ['PLINTH_LOG_LEVEL', 'PLINTH_PORT', 'PLINTH_TLS'],
    )
  })

  it('returns a deeply frozen object, and lists unknown PLINTH_ variables', () => {
    const read = readConfig({ PLINTH_PROT: '1', OTHER: '2', PLINTH_PROFILE: 'development' })
    assert.deepEqual(read.unknown, ['PLINTH_PROT'])
    assert.ok(Object.isFrozen(read))
    assert.throws(() => Object.assign(read, { plain: true }), TypeError)
    assert.throws(() => Object.assign(read.http, { port: 1 }), TypeError)
    assert.throws(() => read.webhooks.schedule.push(1), TypeError)
  })
})

describe('values derived from the settings', () => {
  it('the database URL is a file in the data folder unless another URL is given', () => {
    assert.equal(databaseUrlOf(readConfig({ PLINTH_DATA_DIR: '/x' }).storage), 'file:/x/plinth.db')
    assert.equal(databaseUrlOf(readConfig({ DATABASE_URL: 'postgres://db/x' }).storage), 'postgres://db/x')
  })

  it('DATABASE_URL is treated as a pooler if PLINTH_DATABASE_DIRECT_URL is a different URL', () => {
    const urlsOf = (env: Environment) => {
      const { storage } = readConfig(env)
      return [poolerUrlOf(storage), databaseUrlOf(storage)]
    }
    const [pooler, server] = ['postgres://pooler/x', 'postgres://db/x']
    assert.deepEqual(urlsOf({ DATABASE_URL: pooler, PLINTH_DATABASE_DIRECT_URL: server }), [pooler, server])
    assert.deepEqual(urlsOf({ DATABASE_URL: server, PLINTH_DATABASE_DIRECT_URL: server }), [null, server])
    assert.deepEqual(urlsOf({ PLINTH_DATABASE_DIRECT_URL: server }), [null, server])
    assert.deepEqual(urlsOf({ DATABASE_URL: server }), [null, server])
    assert.match(
      message({ DATABASE_URL: 'file:/x.db', PLINTH_DATABASE_DIRECT_URL: server }),
      /^PLINTH_DATABASE_DIRECT_URL is not valid with DATABASE_URL=file:…: expected a pooler of the same server$/,
    )
  })

  it('the results folder is in the data folder unless another one is given', () => {
    assert.equal(resultsUrlOf(readConfig({ PLINTH_DATA_DIR: '/x' }).storage), 'file:/x/results')
    assert.equal(resultsUrlOf(readConfig({ PLINTH_RESULTS_URL: 'file:/y/z' }).storage), 'file:/y/z')
    assert.equal(resultsUrlOf(readConfig({ PLINTH_RESULTS_URL: 'file:///y/z' }).storage), 'file:///y/z')
    assert.equal(resultsUrlOf(readConfig({ PLINTH_RESULTS_URL: 'file:y' }).storage), 'file:y')
  })

  it('the backups folder is in the data folder unless another one is given; only one passphrase may be set', () => {
    const urlOf = (env: Environment) => {
      const { backup, storage } = readConfig(env)
      return backupsUrlOf(backup, storage)
    }
    assert.equal(urlOf({ PLINTH_DATA_DIR: '/x' }), 'file:/x/backups')
    assert.equal(urlOf({ PLINTH_BACKUP_URL: 's3://bucket/x' }), 's3://bucket/x')
    const both = { PLINTH_BACKUP_PASSPHRASE: 'x', PLINTH_BACKUP_PASSPHRASE_FILE: 'y' }
    assert.match(message(both), /PLINTH_BACKUP_PASSPHRASE and PLINTH_BACKUP_PASSPHRASE_FILE exclude each other/)
  })

  it('describeSettings returns the effective values, with secrets hidden', () => {
    const secrets = { PLINTH_MASTER_KEY: hex, PLINTH_BOOTSTRAP_CLIENT_SECRET: 's', PLINTH_BACKUP_PASSPHRASE: 'p' }
    const env = { PLINTH_PORT: '9443', ...secrets }
    const table = describeSettings(readConfig({ ...env, PLINTH_BOOTSTRAP_CLIENT_ID: 'b' }), env)
    const value = Object.fromEntries(table.map((row) => [row.name, row.value]))
    assert.equal(value.PLINTH_PORT, '9443')
    assert.equal(value.PLINTH_TLS, 'on')
    assert.equal(value.PLINTH_BASE_URL, '(unset)')
    for (const name of Object.keys(secrets)) assert.equal(value[name], '…')
  })
})
