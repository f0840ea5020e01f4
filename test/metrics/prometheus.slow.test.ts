import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { freePort } from '../../src/serving/listeners.ts'
import { eventually, type RealService, realService } from '../support/service.ts'

const isInstalled = ['prometheus', 'promtool'].every((name) => spawnSync(name, ['--version']).status === 0)
const skip = isInstalled ? false : 'prometheus and promtool are not on PATH'
const deploy = fileURLToPath(new URL('../../deploy', import.meta.url))

interface Panel {
  type: string
  title: string
  datasource?: unknown
  gridPos: { x: number; y: number; w: number; h: number }
  targets?: { expr: string }[]
}
const dashboard: { panels: Panel[]; templating: { list: { name: string }[] } } = JSON.parse(
  readFileSync(join(deploy, 'grafana', 'plinth.json'), 'utf8'),
)
/** Matches queries for metrics that exist only on PostgreSQL, after a scheduled backup, or after a failure. */
const ofOthers = /plinth_database_connection|plinth_backup_|_total\{status=~"5\.\."|_seconds_count\{outcome="failed"/

/** Returns a Prometheus configuration that scrapes a service at both its metrics listener and its main listener. */
function configuration(service: RealService, metricsPort: number): string {
  const secretFile = join(service.dataDir, 'prometheus-secret')
  writeFileSync(secretFile, 'boot secret')
  const tls = { ca_file: join(service.dataDir, 'certificates', 'authority.crt'), server_name: 'localhost' }
  const oauth2 = {
    ...{ client_id: 'boot', client_secret_file: secretFile, scopes: ['admin'] },
    ...{ token_url: `https://localhost:${service.port}/oauth/token`, tls_config: tls },
  }
  const main = [`localhost:${service.port}`]
  // Prometheus expects YAML, of which JSON is a subset.
  return JSON.stringify({
    global: { scrape_interval: '300ms', scrape_timeout: '250ms', evaluation_interval: '1s' },
    rule_files: [join(deploy, 'prometheus', 'alerts.yml')],
    scrape_configs: [
      { job_name: 'plinth', scrape_timeout: '300ms', static_configs: [{ targets: [`127.0.0.1:${metricsPort}`] }] },
      {
        ...{ job_name: 'main', scheme: 'https', tls_config: tls, oauth2 },
        ...{ scrape_interval: '5s', scrape_timeout: '5s', static_configs: [{ targets: main }] },
      },
    ],
  })
}

describe('promtool', { skip }, () => {
  const promtool = (args: string[], input = '') => {
    const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' })
    return { status, output: stdout + stderr }
  }

  it('accepts the alert rules and the example configuration', () => {
    const rules = promtool(['check', 'rules', join(deploy, 'prometheus', 'alerts.yml')])
    assert.deepEqual([rules.status, /SUCCESS: \d+ rules found/.test(rules.output)], [0, true], rules.output)
    const example = promtool(['check', 'config', join(deploy, 'prometheus', 'prometheus.yml')])
    assert.equal(example.status, 0, example.output)
  })
})

describe('deploy/grafana/plinth.json', () => {
  it('has the variables datasource and instance, six rows, and no overlapping panels', () => {
    assert.deepEqual(
      dashboard.templating.list.map(({ name }) => name),
      ['datasource', 'instance'],
    )
    const rows = dashboard.panels.filter(({ type }) => type === 'row').map(({ title }) => title)
    assert.deepEqual(rows, ['HTTP', 'Tasks and queue', 'Webhooks', 'OAuth and limits', 'Database', 'Process'])
    const taken = new Set<string>()
    for (const { title, gridPos } of dashboard.panels) {
      assert.ok(gridPos.x + gridPos.w <= 24, title)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          assert.ok(!taken.has(`${x} ${y}`), `${title} overlaps another panel`)
          taken.add(`${x} ${y}`)
        }
      }
    }
  })
})

describe('Prometheus', { skip }, () => {
  let service: RealService
  let receiver: Server
  let prometheus: ChildProcess
  let folder: string
  let base: string
  let metricsPort: number
  let output = ''

  before(async () => {
    metricsPort = await freePort()
    receiver = createServer((incoming, response) => incoming.resume().on('end', () => response.end()))
    await once(receiver.listen(0, '127.0.0.1'), 'listening')
    service = await realService({
      PLINTH_METRICS_PORT: String(metricsPort),
      PLINTH_THREADS: '2',
      PLINTH_WEBHOOK_ALLOW_HTTP: 'true',
      PLINTH_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    })
    await service.start()
    folder = mkdtempSync(join(tmpdir(), 'plinth-prometheus-'))
    writeFileSync(join(folder, 'prometheus.yml'), configuration(service, metricsPort))
    const address = `127.0.0.1:${await freePort()}`
    base = `http://${address}`
    const options = [`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`]
    prometheus = spawn('prometheus', [...options, `--web.listen-address=${address}`, '--log.level=warn'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    prometheus.stderr?.on('data', (text) => (output += text))
    const callbackUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
    await service.call('POST', '/api/webhooks', { body: { event: 'product.created', callbackUrl } })
    await makeTraffic()
    await eventually(`Prometheus scrapes the service (it printed: ${output})`, async () => {
      await makeTraffic()
      return (await query('min(up)').catch(() => []))[0]?.value[1] === '1' && (await query('up')).length === 2
    })
  })
  after(async () => {
    prometheus.kill('SIGKILL')
    await service.remove()
    receiver.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function makeTraffic() {
    await service.call('POST', '/products', { body: { name: 'Lamp', price: 9 } })
    await service.call('POST', '/api/reports', { body: { reportType: 'products', format: 'csv' } })
    await service.call('GET', '/products')
  }
  const ask = async (path: string) => {
    const response = await request(base + path)
    const { status, data, error } = (await response.body.json()) as { status: string; data: never; error?: string }
    if (status !== 'success') throw new Error(`${path}: ${error}`)
    return data
  }
  const query = async (expr: string) => {
    const { result } = (await ask(`/api/v1/query?query=${encodeURIComponent(expr)}`)) as {
      result: { metric: Record<string, string>; value: [number, string] }[]
    }
    return result
  }

  /** Runs the expressions while the service has traffic, until each has returned data. */
  const returnData = async (expressions: string[]) => {
    let empty = expressions
    await eventually('every expression returns data', async () => {
      await makeTraffic()
      const found = await Promise.all(empty.map(query))
      empty = empty.filter((_, at) => found[at]?.length === 0)
      return empty.length === 0
    }).catch(() => assert.deepEqual(empty, [], output))
  }

  it('scrapes metrics that promtool accepts without a warning', async () => {
    const text = await (await request(`http://127.0.0.1:${metricsPort}/metrics`)).body.text()
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' })
    assert.deepEqual([status, stdout, stderr], [0, '', ''])
  })

  it('runs every query of the dashboard, and gets data for those that apply to the service', async () => {
    const expressions = dashboard.panels
      .flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
      .map((expr) => expr.replaceAll('$instance', '.*').replaceAll('$__rate_interval', '1m'))
    assert.ok(expressions.length > 40)
    assert.ok(expressions.every((expr) => !expr.includes('$')))
    await Promise.all(expressions.filter((expr) => ofOthers.test(expr)).map(query))
    await returnData(expressions.filter((expr) => !ofOthers.test(expr)))
  })

  it('evaluates every alert rule without an error, fires no alert, and gets data for the applicable expressions', async () => {
    const rules = async () => {
      const { groups } = (await ask('/api/v1/rules')) as {
        groups: { rules: { name: string; query: string; health: string; lastError?: string; state: string }[] }[]
      }
      return groups.flatMap((group) => group.rules)
    }
    const evaluated = await eventually('every rule is evaluated', async () => {
      const found = await rules()
      return found.every(({ health }) => health !== 'unknown') && found
    })
    assert.deepEqual(
      evaluated.filter(({ health }) => health !== 'ok').map(({ name, lastError }) => [name, lastError]),
      [],
    )
    assert.deepEqual(
      evaluated.filter(({ state }) => state === 'firing').map(({ name }) => name),
      [],
    )
    const withoutThreshold = evaluated.map(({ query }) => query.replace(/ (==|<|>) [\d.e+]+$/, ''))
    assert.ok(withoutThreshold.every((expr, at) => expr !== evaluated[at]?.query))
    await returnData(withoutThreshold.filter((expr) => !ofOthers.test(expr)))
  })
})
