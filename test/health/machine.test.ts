import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import type { Runtime } from '../../src/health/check.ts'
import type { ExamineOptions } from '../../src/health/examine.ts'
import { spaceFinding } from '../../src/health/files.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { type Environment, examined, expectCheck, newFolder, production } from './support.ts'

const runtime = (changes: Partial<Runtime>): Partial<ExamineOptions> => ({
  runtime: { versions: process.versions, env: {}, execArgv: [], getuid: () => 1_000, ...changes },
})
const node = (version: string) => runtime({ versions: { ...process.versions, node: version } })
const on = (date: string) => ({ now: () => Date.parse(date) })

type Case = [id: string, status: string, text: RegExp, env: Environment, changes?: Partial<ExamineOptions>]

const cases: Case[] = [
  ['runtime.node', 'pass', /^24\.21\.0; supported until 2028-04-30/, {}, { ...node('24.21.0'), ...on('2026-11-23') }],
  ['runtime.node', 'warn', /24\.16\.3 lacks security fixes/, {}, node('24.16.3')],
  ['runtime.node', 'warn', /support ends on 2028-04-30/, {}, { ...node('24.21.0'), ...on('2028-03-01') }],
  ['runtime.node', 'warn', /support ended on 2028-04-30/, {}, { ...node('24.21.0'), ...on('2028-05-02') }],
  ['runtime.node', 'warn', /25\.1\.0 has no known long-term support → Install .* 24 or 26/, {}, node('25.1.0')],
  ['runtime.options', 'pass', /No option/, production, runtime({})],
  [
    ...(['runtime.options', 'fail', /NODE_TLS_REJECT_UNAUTHORIZED=0 accepts any certificate/] as const),
    ...([production, runtime({ env: { NODE_TLS_REJECT_UNAUTHORIZED: '0' } })] as const),
  ],
  ['runtime.options', 'warn', /request smuggling/, {}, runtime({ execArgv: ['--insecure_http_parser'] })],
  ['runtime.user', 'pass', /^user id 1000/, production, runtime({})],
  ['runtime.user', 'pass', /^root/, {}, runtime({ getuid: () => 0 })],
  ['runtime.user', 'warn', /runs as root/, production, runtime({ getuid: () => 0 })],
  ['runtime.profile', 'pass', /^production/, production],
  ['runtime.profile', 'pass', /for this machine only/, {}],
  ['runtime.profile', 'fail', /listens on 0\.0\.0\.0 .*PLINTH_PROFILE=production/, { PLINTH_HOST: '0.0.0.0' }],
  ['runtime.profile', 'fail', /api\.example\.com/, { PLINTH_BASE_URL: 'https://api.example.com' }],
  ['settings.names', 'pass', /is a setting/, {}],
  ['settings.names', 'warn', /PLINTH_PROT .*did you mean PLINTH_PORT/, { PLINTH_PROT: '1' }],
  ['settings.secrets', 'pass', /No secret/, { PLINTH_JWT_SHARED_SECRET: 'q7Zt0pLw9sXc4Vb1nMk8JhGf5DdSaQ2e' }],
  ['settings.secrets', 'warn', /PLINTH_MASTER_KEY can be guessed/, { PLINTH_MASTER_KEY: '0'.repeat(64) }],
  ['settings.secrets', 'fail', /openssl rand/, { ...production, PLINTH_MASTER_KEY: 'ab'.repeat(32) }],
  ['settings.bootstrap-client', 'pass', /Not configured/, production],
  [
    ...(['settings.bootstrap-client', 'warn', /plinth clients revoke boot/] as const),
    { ...production, PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'x' },
  ],
  ['settings.base-url', 'pass', /^https:\/\/api\.example\.com/, production],
  ['settings.base-url', 'fail', /localhost.*Set PLINTH_BASE_URL/, { PLINTH_PROFILE: 'production' }],
  ['settings.limits', 'pass', /All limits are on/, {}],
  [
    'settings.limits',
    'warn',
    /^PLINTH_THROTTLE, PLINTH_QUOTA_REPORTS: off/,
    { PLINTH_THROTTLE: 'off', PLINTH_QUOTA_REPORTS: 'off' },
  ],
  ['settings.cors', 'pass', /^https:\/\/app\.example\.com/, { PLINTH_CORS_ORIGINS: 'https://app.example.com' }],
  ['settings.cors', 'warn', /^http:\/\/localhost:5173 may/, { PLINTH_CORS_ORIGINS: 'http://localhost:5173' }],
  ['settings.proxies', 'pass', /^10\.0\.0\.0\/8, fd00::\/16/, { PLINTH_TRUSTED_PROXIES: '10.0.0.0/8,fd00::/16' }],
  [
    'settings.proxies',
    'fail',
    /in 0\.0\.0\.0\/1, 2000::\/3 can forge/,
    { PLINTH_TRUSTED_PROXIES: '10.0.0.1,0.0.0.0/1,2000::/3' },
  ],
  ['settings.webhooks', 'pass', /public networks/, production],
  [
    ...([
      'settings.webhooks',
      'warn',
      /allows http:\/\/ URLs; PLINTH_WEBHOOK_ALLOW_CIDRS allows 10\.0\.0\.0\/8/,
    ] as const),
    { ...production, PLINTH_WEBHOOK_ALLOW_HTTP: 'true', PLINTH_WEBHOOK_ALLOW_CIDRS: '10.0.0.0/8' },
  ],
  ['settings.token-lifetime', 'pass', /^900 seconds/, {}],
  ['settings.token-lifetime', 'warn', /^3601 seconds/, { PLINTH_ACCESS_TOKEN_TTL: '3601' }],
  ['settings.metrics', 'pass', /^Off/, {}],
  ['settings.metrics', 'pass', /^127\.0\.0\.1:9464/, { PLINTH_METRICS_PORT: '9464' }],
  ['settings.metrics', 'warn', /without a token/, { PLINTH_METRICS_PORT: '9464', PLINTH_METRICS_HOST: '0.0.0.0' }],
  ['tls.certificate', 'pass', /The first start creates/, {}],
  ['tls.certificate', 'pass', /plain HTTP for this machine/, { PLINTH_TLS: 'off' }],
  [
    'tls.certificate',
    'pass',
    /proxy at 10\.0\.0\.1 terminates/,
    { PLINTH_TLS: 'off', PLINTH_TRUSTED_PROXIES: '10.0.0.1' },
  ],
]

describe('health checks of the process and its settings (S-22)', () => {
  for (const [id, status, text, env, changes] of cases) {
    const settings = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    it(`${id} has the status ${status}: ${text.source} (${settings.join(' ') || 'defaults'})`, async () => {
      expectCheck(await examined(env, changes), id, status, text)
    })
  }
})

describe('health checks of files', () => {
  let place: ReturnType<typeof newFolder>
  let dataDir: string
  beforeEach(() => {
    place = newFolder()
    dataDir = join(place.folder, 'data')
    mkdirSync(dataDir, { mode: 0o700 })
  })
  afterEach(() => place.remove())
  const check = (env: Environment = {}, changes: Partial<ExamineOptions> = {}) =>
    examined({ PLINTH_DATA_DIR: dataDir, ...env }, changes)

  it('files.data-folder warns if the folder is missing, and does not create it', async () => {
    const PLINTH_DATA_DIR = join(place.folder, 'none')
    const report = await check({ PLINTH_DATA_DIR })
    expectCheck(report, 'files.data-folder', 'warn', /none does not exist/)
    expectCheck(report, 'files.results', 'pass')
    assert.equal(statSync(PLINTH_DATA_DIR, { throwIfNoEntry: false }), undefined)
  })

  it('files.data-folder fails in production if others can access the folder', async () => {
    expectCheck(await check(production), 'files.data-folder', 'pass', /mode 0700/)
    chmodSync(dataDir, 0o750)
    expectCheck(await check(production), 'files.data-folder', 'fail', /mode 0750 .*chmod 700/)
    expectCheck(await check(), 'files.data-folder', 'warn', /mode 0750/)
  })

  it('files.data-folder warns if the folder belongs to another user', async () => {
    const { uid } = statSync(dataDir)
    expectCheck(await check({}, runtime({ getuid: () => uid + 1 })), 'files.data-folder', 'warn', /runs as/)
  })

  it('files.private fails in production for a master key, a database or a TLS key with a wrong mode', async () => {
    const files = {
      key: join(dataDir, 'master.key'),
      database: join(dataDir, 'plinth.db'),
      tls: join(dataDir, 'tls.key'),
    }
    for (const file of Object.values(files)) writeFileSync(file, '', { mode: 0o640 })
    const env = { ...production, PLINTH_TLS_CERT_FILE: files.tls, PLINTH_TLS_KEY_FILE: files.tls }
    expectCheck(await check(env), 'files.private', 'fail', /plinth\.db, \S+master\.key → Run `chmod 600/)
    expectCheck(await check(), 'files.private', 'warn')
    chmodSync(files.tls, 0o644)
    expectCheck(
      await check(env),
      'files.private',
      'fail',
      /→ Run `chmod 600 \S+plinth\.db \S+master\.key` and `chmod o= \S+tls\.key`$/,
    )
    chmodSync(files.tls, 0o640)
    for (const file of Object.values(files).slice(0, 2)) chmodSync(file, 0o600)
    // Group read access is allowed only for the TLS key, which the operator supplies.
    expectCheck(await check(env), 'files.private', 'pass')
    chmodSync(files.tls, 0o644)
    expectCheck(await check(env), 'files.private', 'fail', /chmod o= \S+tls\.key/)
  })

  it('files.space warns below 2 GiB or 10 %, and fails below 512 MiB', async () => {
    expectCheck(
      await check(),
      'files.space',
      (await check()).checks.find(({ id }) => id === 'files.space')?.status ?? null,
    )
    const found = (freeBytes: number, totalBytes: number) =>
      spaceFinding([{ name: 'data', freeBytes, totalBytes }]).status
    const gib = 1024 ** 3
    assert.deepEqual(
      [found(50 * gib, 100 * gib), found(9 * gib, 100 * gib), found(1.9 * gib, 4 * gib), found(0.49 * gib, 1 * gib)],
      ['pass', 'warn', 'warn', 'fail'],
    )
  })

  it('files.results fails if the configured folder or one of its parents is a file', async () => {
    expectCheck(await check(), 'files.results', 'pass', /results/)
    writeFileSync(join(dataDir, 'results'), '')
    expectCheck(await check(), 'files.results', 'fail', /results is not a folder/)
    const PLINTH_RESULTS_URL = `file:${join(dataDir, 'results', 'x')}`
    expectCheck(await check({ PLINTH_RESULTS_URL }), 'files.results', 'fail', /results is not a folder/)
  })

  it('keys.master fails if the key of an existing database is missing, or has the wrong length', async () => {
    expectCheck(await check(), 'keys.master', 'warn', /There is none yet/)
    writeFileSync(join(dataDir, 'plinth.db'), '')
    expectCheck(await check(), 'keys.master', 'fail', /cannot be decrypted → Restore/)
    writeFileSync(join(dataDir, 'master.key'), 'short')
    expectCheck(await check(), 'keys.master', 'fail', /does not hold a key of 32 bytes/)
    writeFileSync(join(dataDir, 'master.key'), Buffer.alloc(32).toString('base64'))
    expectCheck(await check(), 'keys.master', 'pass', /master\.key/)
    expectCheck(await check({ PLINTH_MASTER_KEY: '0'.repeat(64) }), 'keys.master', 'pass', /Set by PLINTH_MASTER_KEY/)
  })
})

describe('health checks of the certificate', () => {
  const madeMs = Date.parse('2026-01-01T00:00:00Z')
  const dayMs = 86_400_000
  let place: ReturnType<typeof newFolder>
  let cert: string
  before(async () => {
    place = newFolder()
    await localCertificates(join(place.folder, 'certificates'), ['api.example.com'], () => madeMs)
    cert = join(place.folder, 'certificates', 'server.pem')
  })
  after(() => place.remove())
  const at = (day: number, env: Environment = {}) =>
    examined({ PLINTH_DATA_DIR: place.folder, ...env }, { now: () => madeMs + day * dayMs })
  const given = (file: string, key = file) => ({ PLINTH_TLS_CERT_FILE: file, PLINTH_TLS_KEY_FILE: key })

  it('tls.expiry warns 30 days before the certificate expires, and fails 7 days before', async () => {
    expectCheck(await at(366), 'tls.expiry', 'pass', /Valid for 30 days/)
    expectCheck(await at(368), 'tls.expiry', 'warn', /expires on 2027-02-01 → Restart the service/)
    expectCheck(await at(391), 'tls.expiry', 'fail', /expires on/)
    expectCheck(await at(398, given(cert)), 'tls.expiry', 'fail', /expired on 2027-02-01 → Renew/)
    expectCheck(await at(0, { PLINTH_TLS: 'off' }), 'tls.expiry', null)
  })

  it('tls.expiry names the certificate and key files of a generated CA that is about to expire', async () => {
    const authority = new X509Certificate(readFileSync(join(place.folder, 'certificates', 'authority.crt')))
    const lastDay = Math.floor((authority.validToDate.getTime() - madeMs) / dayMs)
    const later = newFolder()
    try {
      const folder = join(later.folder, 'certificates')
      mkdirSync(folder, { mode: 0o700 })
      for (const name of ['authority.crt', 'authority.key']) {
        copyFileSync(join(place.folder, 'certificates', name), join(folder, name))
      }
      await localCertificates(folder, [], () => madeMs + (lastDay - 20) * dayMs)
      const report = await at(lastDay - 20, { PLINTH_DATA_DIR: later.folder })
      expectCheck(report, 'tls.expiry', 'warn', /authority\.crt expires on .* → Delete \S+\.crt and \S+\.key, .* trust/)
    } finally {
      later.remove()
    }
  })

  it('tls.certificate fails if the certificate does not cover the host of the public URL', async () => {
    expectCheck(await at(0, given(cert)), 'tls.certificate', 'pass', /covers localhost/)
    const other = { ...production, PLINTH_BASE_URL: 'https://other.example.com' }
    expectCheck(
      await at(0, { ...other, ...given(cert) }),
      'tls.certificate',
      'fail',
      /does not cover other\.example\.com/,
    )
  })

  it('tls.certificate warns in production if the service created the certificate', async () => {
    expectCheck(await at(0), 'tls.certificate', 'pass')
    expectCheck(await at(0, production), 'tls.certificate', 'warn', /must trust explicitly/)
    expectCheck(await at(0, { ...production, ...given(cert) }), 'tls.certificate', 'pass')
  })

  it('tls.certificate fails if the files do not match, or cannot be read', async () => {
    const authority = join(place.folder, 'certificates', 'authority.key')
    expectCheck(
      await at(0, given(cert, authority)),
      'tls.certificate',
      'fail',
      /authority\.key is not the private key of/,
    )
    const report = await at(0, given(join(place.folder, 'none')))
    expectCheck(report, 'tls.certificate', 'fail', /none cannot be read/)
    expectCheck(report, 'tls.expiry', 'fail', /none cannot be read/)
  })
})
