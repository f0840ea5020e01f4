import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request as plainRequest } from 'node:http'
import { Agent, type RequestOptions, request as secureRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { addNodes, type Node, sharedSettings, startNode } from '../../scripts/cluster/nodes.ts'
import { openPrograms, type Program } from '../../scripts/cluster/processes.ts'
import { type ProxyName, proxyCertificate, startProxy } from '../../scripts/cluster/proxies.ts'
import { checkout } from '../../scripts/cluster/upgrade.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { onPostgres } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

const client = { id: 'proxies', secret: 'a secret of the proxy tests' }
const programNames = { nginx: '-v', caddy: 'version', haproxy: '-v', 'haproxy-passthrough': '-v' }

const missing = (name: ProxyName): string | false => {
  const program = name === 'haproxy-passthrough' ? 'haproxy' : name
  return spawnSync(program, [programNames[name]]).status === 0 ? false : `${program} is not installed`
}

/** Caddy responds only to requests for the host name in its configuration. */
const localhost = { host: 'localhost' }

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

/** Two nodes behind a proxy, without a worker, so that report tasks stay pending. */
interface Site {
  port: number
  httpPort: number
  nodes: Node[]
  agent: Agent
  token: string
  log: () => string
  send: (options: RequestOptions, body?: string) => Promise<Answer>
}

onPostgres((engine) => {
  /** Starts the nodes and the proxy before the tests of a suite. */
  function siteBehind(name: ProxyName, env: Record<string, string> = {}): Site {
    const site = {} as Site
    const folder = mkdtempSync(join(tmpdir(), 'plinth-proxy-'))
    const programs = openPrograms(folder)
    const closers: (() => unknown)[] = []
    before(async () => {
      const place = await engine.migratedPlace()
      closers.push(place.remove)
      const [port, httpPort] = [await freePort(), await freePort()]
      const redirects = [await freePort(), await freePort()]
      const shared = { ...sharedSettings(port, client), DATABASE_URL: place.url, ...env }
      const certificate = await proxyCertificate(folder)
      if (name === 'haproxy-passthrough') {
        Object.assign(shared, { PLINTH_TLS_CERT_FILE: certificate.chain, PLINTH_TLS_KEY_FILE: certificate.key })
      }
      const onUnexpectedExit = (text: string) => assert.fail(text)
      const roles = ['api,auth', 'api,auth']
      const nodes = await addNodes(programs, { roles, redirects, code: checkout, env: shared, onUnexpectedExit })
      for (const node of nodes) await startNode(node)
      const options = { port, httpPort, nodes: nodes.map((node) => node.port), redirects }
      const { authorityFile } = await startProxy(programs, name, options)
      const agent = new Agent({ ca: readFileSync(authorityFile), keepAlive: true, servername: 'localhost' })
      const log = () => nodes.map((node) => readFileSync(join(folder, `${node.name}.log`), 'utf8')).join('')
      const send = (options: RequestOptions, body?: string) => answerTo({ port, agent, ...options }, body)
      Object.assign(site, { port, httpPort, nodes, agent, log, send })
      const headers = {
        authorization: `Basic ${Buffer.from(`${client.id}:${encodeURIComponent(client.secret)}`).toString('base64')}`,
        'content-type': 'application/x-www-form-urlencoded',
      }
      const granted = await send({ method: 'POST', path: '/oauth/token', headers }, 'grant_type=client_credentials')
      site.token = JSON.parse(granted.text).access_token
    })
    after(async () => {
      site.agent?.destroy()
      await programs.stopAll()
      for (const close of closers) await close()
      rmSync(folder, { recursive: true, force: true })
    })
    return site
  }

  for (const name of ['nginx', 'caddy', 'haproxy'] as const) {
    describe(`deploy/${name === 'caddy' ? 'Caddyfile' : name === 'nginx' ? 'nginx.conf' : 'haproxy.cfg'}`, {
      skip: missing(name),
      timeout: 180_000,
    }, () => {
      const site = siteBehind(name)
      common(site)

      it('logs the client’s address, not the one in its X-Forwarded-For header', async () => {
        const headers = { 'x-forwarded-for': '203.0.113.9', 'x-request-id': `address-${name}` }
        await site.send({ path: '/products', headers, localAddress: '127.0.0.2' })
        const isRequest = (line: string) => line.includes(`"address-${name}"`)
        const line = await eventually('the request is logged', async () => site.log().split('\n').find(isRequest))
        assert.match(line, /"address":"127\.0\.0\.2"/)
      })

      it('forwards an event of a stream before the stream ends', async () => {
        const created = await post(site, '/api/reports', { reportType: 'products', format: 'csv' })
        assert.equal(created.status, 202, created.text)
        const path = `/api/reports/${JSON.parse(created.text).taskId}/events`
        const { port, agent } = site
        const headers = { ...localhost, authorization: `Bearer ${site.token}`, accept: 'text/event-stream' }
        const stream = secureRequest({ host: '127.0.0.1', port, agent, path, headers }).end()
        const [response] = await once(stream, 'response')
        const [first] = await once(response, 'data')
        assert.match(String(first), /\nevent: progress\n/)
        stream.destroy()
      })

      it('413 from the service for a body that is too large, 422 for a large body within the limit', async () => {
        const large = await post(site, '/products', { name: 'x'.repeat(900_000), price: 1 })
        assert.equal(large.status, 422, large.text)
        const tooLarge = await post(site, '/products', { name: 'x'.repeat(1_200_000), price: 1 })
        assert.deepEqual([tooLarge.status, JSON.parse(tooLarge.text).status], [413, 413])
      })

      rollingRestart(site)

      it('503 with Retry-After while no node responds', async () => {
        await Promise.all(site.nodes.map(({ program }) => program.stop('SIGKILL')))
        // If the node is gone, HAProxy closes a reused connection without a response.
        const agent = new Agent({ ...site.agent.options, keepAlive: false })
        const { status, headers, text } = await site.send({ path: '/products', agent })
        assert.deepEqual([status, headers['retry-after'], JSON.parse(text).status], [503, '1', 503])
        assert.match(String(headers['content-type']), /^application\/problem\+json/)
      })
    })
  }

  describe('deploy/haproxy-passthrough.cfg', { skip: missing('haproxy-passthrough'), timeout: 180_000 }, () => {
    const site = siteBehind('haproxy-passthrough', { PLINTH_TLS: 'on', PLINTH_TRUSTED_PROXIES: '' })
    common(site)
    rollingRestart(site)
  })
})

/** Tests that every proxy must pass. */
function common(site: Site): void {
  it('serves HTTPS, and keeps the connection open for further requests', async () => {
    const first = await site.send({ path: '/products' })
    assert.equal(first.status, 200, first.text)
    assert.equal(first.headers['strict-transport-security'], 'max-age=31536000; includeSubDomains')
    const { port, agent } = site
    const sent = secureRequest({ host: '127.0.0.1', port, agent, path: '/products', headers: localhost }).end()
    const [response] = await once(sent, 'response')
    response.resume()
    await once(response, 'end')
    assert.equal(sent.reusedSocket, true)
  })

  it('redirects plain HTTP to HTTPS', async () => {
    const sent = plainRequest({ host: '127.0.0.1', port: site.httpPort, path: '/products', headers: localhost })
    const [response] = await once(sent.end(), 'response')
    response.resume()
    assert.ok([301, 308].includes(response.statusCode), String(response.statusCode))
    assert.match(String(response.headers.location), /^https:\/\/(localhost|127\.0\.0\.1)(:\d+)?\/products$/)
  })
}

/** Restarts one node after the other, and asserts that no request fails. */
function rollingRestart(site: Site): void {
  it('handles every request while the nodes are restarted one by one', { timeout: 300_000 }, async () => {
    const statuses: Record<string, number> = {}
    let isOver = false
    const client = async () => {
      for (let n = 0; !isOver; n++) {
        const answer = await (n % 4 === 0
          ? post(site, '/products', { name: `product ${n}`, price: 1 })
          : site.send({ path: '/products?limit=1' })
        ).catch((error) => ({ status: String(error) }))
        statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
        await pause(40)
      }
    }
    const clients = [client(), client()]
    for (const { program } of site.nodes) await restart(program)
    isOver = true
    await Promise.all(clients)
    assert.deepEqual(Object.keys(statuses).toSorted(), ['200', '201'], JSON.stringify(statuses))
  })
}

async function restart(program: Program): Promise<void> {
  assert.equal(await program.stop('SIGTERM'), 0)
  await program.start()
  // The proxy detects within this time that the node is healthy again.
  await pause(3_000)
}

const post = (site: Site, path: string, body: object) => {
  const headers = { authorization: `Bearer ${site.token}`, 'content-type': 'application/json' }
  return site.send({ method: 'POST', path, headers }, JSON.stringify(body))
}

async function answerTo(options: RequestOptions, body = ''): Promise<Answer> {
  const sent = secureRequest({ host: '127.0.0.1', ...options, headers: { ...localhost, ...options.headers } })
  // A refusal can arrive before the whole body has been sent.
  const answered = once(sent, 'response')
  sent.on('error', () => {})
  sent.end(body)
  const [response] = await answered
  const text = (await response.setEncoding('utf8').toArray()).join('')
  return { status: response.statusCode ?? 0, headers: response.headers, text }
}
