import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, it } from 'node:test'
import { freePort } from '../../src/serving/listeners.ts'
import {
  answering,
  ended,
  eventually,
  killAll,
  newPlace,
  occupied,
  plinth,
  project,
  type Running,
  requestToken,
  serving,
  start,
  visit,
} from './support.ts'

const removals: (() => void)[] = []
after(() => {
  killAll()
  for (const remove of removals) remove()
})

/** Creates a data folder that is removed after the tests. */
async function place() {
  const created = await newPlace()
  removals.push(created.remove)
  const { dataDir, port } = created
  const base = `https://localhost:${port}`
  return { ...created, base, see: (path: string) => visit(dataDir, base + path) }
}

const stop = async (service: Running, signal: NodeJS.Signals = 'SIGTERM') => {
  service.child.kill(signal)
  return ended(service)
}

const refusesConnections = (dataDir: string, base: string) =>
  visit(dataDir, `${base}/livez`).then(
    () => false,
    (error) => error.code === 'ECONNREFUSED',
  )

describe('plinth', () => {
  it('sets UV_THREADPOOL_SIZE to 16 for slow DNS lookups, unless it is already set', async () => {
    const program = 'process.on("exit",()=>console.error(process.env.UV_THREADPOOL_SIZE))'
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(program)}` }
    const threads = async (more = {}) => (await ended(plinth(['--version'], { ...env, ...more }))).stderr.trim()
    assert.deepEqual([await threads(), await threads({ UV_THREADPOOL_SIZE: '5' })], ['16', '5'])
  })
})

describe('plinth serve', () => {
  it('creates keys, certificates and a client on the first run and reuses them on the second', async () => {
    const { dataDir, port, env, base, see } = await place()
    const certificate = () => readFileSync(join(dataDir, 'certificates', 'server.pem'), 'utf8')
    const first = await serving(dataDir, port, env)
    const greeting = await eventually(
      'the client is shown',
      async () => /Secret {8}(\S+)/.exec(first.stdout()) ?? undefined,
    )
    const head = `  Plinth serves ${base}\n  Docs          ${base}/docs\n  Console       ${base}/console\n  Definition    built in: users, products and books\n  Data          ${dataDir}\n`
    assert.ok(first.stdout().includes(head))
    assert.match(first.stdout(), /Trust {9}\S+\/certificates\/authority\.crt\n/)
    const [, id] = /Client {8}(\S+)/.exec(first.stdout()) ?? []
    const next = `-u ${id}:${greeting[1]} -d grant_type=client_credentials ${base}/oauth/token\n`
    assert.match(first.stdout(), /Next {10}get a token\n\n {2}curl --cacert \S+authority\.crt -u /)
    assert.ok(first.stdout().includes(next))
    const token = (await requestToken(dataDir, port, id as string, greeting[1] as string)).json().access_token
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ name: 'Kept', price: 1.5 })
    const created = await visit(dataDir, `${base}/products`, { method: 'POST', headers, body })
    assert.equal(created.status, 201)
    const before = {
      keys: (await see('/oauth/jwks')).json(),
      hooks: (await see('/.well-known/webhook-keys.json')).json(),
    }
    const firstCertificate = certificate()
    assert.equal((await stop(first)).code, 0)

    const second = await serving(dataDir, port, env)
    await eventually('the next steps are printed', async () => second.stdout().includes('Next'))
    assert.doesNotMatch(second.stdout(), /Secret/)
    assert.match(second.stdout(), /Next {10}register clients: npx plinth clients create --name NAME --scope SCOPES\n/)
    assert.deepEqual((await see('/products/1')).json(), created.json())
    assert.deepEqual((await see('/oauth/jwks')).json(), before.keys)
    assert.ok(before.keys.keys[0].kid)
    assert.deepEqual((await see('/.well-known/webhook-keys.json')).json(), before.hooks)
    assert.equal(certificate(), firstCertificate)
    assert.equal((await visit(dataDir, `${base}/api/reports`, { headers })).status, 200, 'the old token is still good')
    assert.equal(statSync(dataDir).mode & 0o077, 0)
    assert.equal((await stop(second)).code, 0)
  })

  it('logs its start in production as one JSON line, with the command that registers a first client', async () => {
    const { dataDir, port, env, base } = await place()
    const production = { ...env, PLINTH_PROFILE: 'production', PLINTH_HOST: '127.0.0.1', PLINTH_ROLES: 'api,auth' }
    const start = async (): Promise<Record<string, unknown>> => {
      const service = await serving(dataDir, port, production)
      await stop(service)
      const lines = service.stdout().trimEnd().split('\n')
      const all = lines.map((line) => JSON.parse(line))
      const migrations = all.filter(({ msg }) => msg === 'migration applied').map(({ name }) => name)
      return { ...all.find(({ msg }) => msg === 'service started'), migrations }
    }
    const { version, address, listening, engine, roles, migrations, next } = await start()
    assert.match(String(version), /^\d+\.\d+\.\d+$/)
    assert.deepEqual([address, listening, engine, roles], [base, `127.0.0.1:${port}`, 'sqlite', ['api', 'auth']])
    assert.equal((migrations as string[])[0], '0001-resources')
    assert.match(String(next), /^register a client: plinth clients create/)
    await ended(plinth(['clients', 'create', '--name', 'A', '--scope', 'reports:read'], env))
    const again = await start()
    assert.deepEqual([again.migrations, again.next], [[], undefined])
  })

  const unsafe: [what: string, env: Record<string, string>, cause: RegExp][] = [
    ['disabled certificate checks', { NODE_TLS_REJECT_UNAUTHORIZED: '0' }, /NODE_TLS_REJECT_UNAUTHORIZED=0/],
    ['an open inspector', { NODE_OPTIONS: '--inspect=127.0.0.1:0' }, /node --inspect/],
    ['the lenient HTTP parser', { NODE_OPTIONS: '--insecure-http-parser' }, /node --insecure-http-parser/],
  ]
  for (const [what, more, cause] of unsafe) {
    it(`exit code 2 in production for ${what}`, async () => {
      const { env } = await place()
      const { code, stderr } = await ended(plinth(['serve'], { ...env, ...more, PLINTH_PROFILE: 'production' }))
      assert.equal(code, 2)
      assert.match(stderr, cause)
    })
  }

  it('exit code 2 and the setting’s name if the data was encrypted with a different master key', async () => {
    const { env, dataDir, port } = await place()
    await stop(await serving(dataDir, port, env))
    const { code, stderr } = await ended(plinth(['serve'], { ...env, PLINTH_MASTER_KEY: '7'.repeat(64) }))
    assert.equal(code, 2)
    assert.match(stderr, /^plinth: \S+ cannot be decrypted: PLINTH_MASTER_KEY is not the master key/)
  })

  it('finishes in-flight requests on SIGTERM, refuses new connections, and exits with code 0', async () => {
    const { dataDir, port, env, base } = await place()
    const service = await serving(dataDir, port, {
      ...env,
      PLINTH_BOOTSTRAP_CLIENT_ID: 'b',
      PLINTH_BOOTSTRAP_CLIENT_SECRET: 's',
    })
    const token = (await requestToken(dataDir, port, 'b', 's')).json().access_token
    const body = JSON.stringify({ name: 'In flight', price: 2 })
    const ca = readFileSync(join(dataDir, 'certificates', 'authority.crt'))
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'content-length': body.length,
      expect: '100-continue',
    }
    const sending = request(`${base}/products`, { method: 'POST', ca, headers, agent: false })
    sending.flushHeaders()
    // 100 Continue: the service has received the request head and waits for the body.
    await once(sending, 'continue')
    const responded = once(sending, 'response')
    service.child.kill('SIGTERM')
    await eventually('the service refuses connections', () => refusesConnections(dataDir, base), 10_000)
    assert.equal(service.child.exitCode, null)
    sending.end(body)
    const [response] = await responded
    assert.equal(response.statusCode, 201)
    assert.equal(JSON.parse(Buffer.concat(await response.toArray()).toString()).name, 'In flight')
    assert.equal((await ended(service)).code, 0)
    const db = new DatabaseSync(join(dataDir, 'plinth.db'), { readOnly: true })
    assert.equal(db.prepare('select name from products where id = 1').get()?.name, 'In flight')
    db.close()
  })

  it('Connection: close and 503 from /readyz while draining; a second SIGTERM ends the process at once', async () => {
    const { dataDir, port, env, base } = await place()
    const service = await serving(dataDir, port, { ...env, PLINTH_DRAIN: '15' })
    const before = await visit(dataDir, `${base}/readyz`)
    assert.deepEqual([before.status, before.headers.connection], [200, 'keep-alive'])
    assert.equal(before.headers['keep-alive'], 'timeout=75')
    service.child.kill('SIGTERM')
    const ready = await eventually('readiness fails', async () => {
      const response = await visit(dataDir, `${base}/readyz`)
      return response.status === 503 && response
    })
    assert.deepEqual([ready.headers['retry-after'], ready.headers.connection], ['2', 'close'])
    const read = await visit(dataDir, `${base}/products`)
    assert.deepEqual([read.status, read.headers.connection], [200, 'close'])
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 1)
    assert.ok(await refusesConnections(dataDir, base))
  })

  it('exits when the npm process that started it exits', async () => {
    const { dataDir, port, env, base } = await place()
    const npm = start('npm', ['start'], env, project)
    await answering(npm, dataDir, port)
    npm.child.kill('SIGTERM')
    // Resolves only after all descendants of npm have closed the output.
    await ended(npm)
    assert.ok(await refusesConnections(dataDir, base))
  })

  describe('with an HTTP port, PLINTH_KEEP_ALIVE and an unknown setting', () => {
    let at: Awaited<ReturnType<typeof place>>
    let httpPort: number
    let service: Running
    before(async () => {
      at = await place()
      httpPort = await freePort()
      const settings = { PLINTH_HTTP_PORT: String(httpPort), PLINTH_KEEP_ALIVE: '120', PLINTH_PROT: '1' }
      service = await serving(at.dataDir, at.port, { ...at.env, ...settings })
    })

    it('301 on the HTTP port to the same path and query, except for health checks', async () => {
      const url = `http://127.0.0.1:${httpPort}`
      const { status, headers } = await visit(at.dataDir, `${url}/products?limit=3&sort=-price`)
      assert.deepEqual([status, headers.location], [301, `${at.base}/products?limit=3&sort=-price`])
      for (const path of ['/livez', '/readyz']) {
        const health = await visit(at.dataDir, url + path)
        assert.deepEqual([health.status, health.json()], [200, { status: 'ok' }])
      }
    })

    it('sends PLINTH_KEEP_ALIVE as the timeout in the Keep-Alive header', async () => {
      assert.equal((await at.see('/livez')).headers['keep-alive'], 'timeout=120')
    })

    it('warns about the unknown setting and suggests the most similar one; exit code 0 on Ctrl-C', async () => {
      const { code, signal, stderr } = await stop(service, 'SIGINT')
      const warning = 'plinth: PLINTH_PROT is not a setting of this release: did you mean PLINTH_PORT?\n'
      assert.deepEqual([code, signal, stderr], [0, null, warning])
      await assert.rejects(visit(at.dataDir, `http://127.0.0.1:${httpPort}/`), { code: 'ECONNREFUSED' })
    })
  })

  it('with PLINTH_TLS=off, serves plain HTTP to a trusted proxy', async () => {
    const { dataDir, port, env } = await place()
    const proxied = {
      PLINTH_TLS: 'off',
      PLINTH_TRUSTED_PROXIES: '127.0.0.1',
      PLINTH_BASE_URL: 'https://api.example.com',
    }
    const service = plinth(['serve'], { ...env, ...proxied })
    const headers = { 'x-forwarded-proto': 'https' }
    const see = (sent: Record<string, string>) => visit(dataDir, `http://127.0.0.1:${port}/products`, { headers: sent })
    const secure = await eventually('it responds', () => see(headers).catch(() => false as const), 20_000)
    assert.equal(secure.status, 200)
    assert.ok(secure.headers['strict-transport-security'])
    const plain = await see({})
    assert.deepEqual([plain.status, plain.headers.location], [301, 'https://api.example.com/products'])
    assert.equal(plain.headers['strict-transport-security'], undefined)
    const probe = await visit(dataDir, `http://127.0.0.1:${port}/readyz`)
    assert.deepEqual([probe.status, probe.json()], [200, { status: 'ok' }])
    const issuer = await visit(dataDir, `http://127.0.0.1:${port}/.well-known/openid-configuration`, { headers })
    assert.equal(issuer.json().issuer, 'https://api.example.com')
    assert.equal((await stop(service)).code, 0)
  })

  for (const setting of ['PLINTH_PORT', 'PLINTH_HTTP_PORT']) {
    it(`exit code 1 and the reason if the port in ${setting} is in use`, async (t) => {
      const { env } = await place()
      const other = await occupied()
      t.after(() => other.server.close())
      const { code, stderr } = await ended(plinth(['serve'], { ...env, [setting]: String(other.port) }))
      assert.equal(code, 1)
      const what = `Cannot listen on 127.0.0.1 port ${other.port}: another program is using it`
      assert.equal(stderr, `plinth: ${what}. Stop that program, or set ${setting} to another port\n`)
      assert.doesNotMatch(stderr, / at .*\.ts:/)
    })
  }

  it('exit code 2, listing the actual and the expected value of every invalid setting', async () => {
    const { env } = await place()
    const wrong = { PLINTH_PORT: 'https', PLINTH_PUBLIC_READ: 'yes', PLINTH_MASTER_KEY: 'hunter2' }
    const commands = ['serve', 'migrate', 'settings']
    const ends = commands.map((command) => ended(plinth([command], { ...env, ...wrong })))
    for (const { code, stdout, stderr } of await Promise.all(ends)) {
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /PLINTH_PORT=https is not valid: expected a whole number from 0 to 65535/)
      assert.match(stderr, /PLINTH_PUBLIC_READ=yes is not valid: expected one of true, false/)
      assert.match(stderr, /PLINTH_MASTER_KEY=… is not valid: expected 32 bytes/)
      assert.doesNotMatch(stderr, /hunter2/)
    }
  })
})
