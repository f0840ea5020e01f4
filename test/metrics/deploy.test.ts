import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, describe, it } from 'node:test'
import { openMetrics } from '../../src/metrics/metrics.ts'
import type { Database } from '../../src/storage/database.ts'
import { onSqlite } from '../support/engines.ts'
import { type Scraped, scraped } from '../support/metrics.ts'
import { expectTable, pageOf } from '../support/pages.ts'
import { later } from '../support/timers.ts'

const project = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, project), 'utf8')

onSqlite((engine) => {
  let metrics: Scraped['metrics']
  before(async () => {
    const db: Database = await engine.database()
    const opened = openMetrics({ version: '1', versions: [], monotonic: Date.now, ofThread: 'serve' })
    const onError = (error: unknown) => assert.fail(error as Error)
    const clocks = { now: Date.now, monotonic: Date.now, later }
    const sources = {
      queue: { backlog: async () => [], running: () => [] },
      space: async () => null,
      tableSizes: async () => null,
    }
    opened.watch({ ...clocks, ...sources, db, hasBackups: true, onError })
    metrics = scraped(await opened.read()).metrics
    await db.close()
  })

  describe('the files in deploy', () => {
    for (const path of ['deploy/grafana/plinth.json', 'deploy/prometheus/alerts.yml']) {
      it(`${path} names only metrics that exist`, () => {
        const names = new Set(read(path).match(/\b(plinth|process|nodejs)_[a-z0-9_]+\b/g))
        const unknown = [...names].filter(
          (name) => !metrics.has(name) && metrics.get(name.replace(/_(bucket|sum|count)$/, ''))?.type !== 'histogram',
        )
        assert.deepEqual(unknown, [])
        assert.ok(names.size > 10)
      })
    }

    it('contain exactly the alerts that docs/operations.md explains', () => {
      const alerts = [...read('deploy/prometheus/alerts.yml').matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
      const explained = [...pageOf('operations.md').matchAll(/^\| `(Plinth\w+)` \|/gm)].map(([, name]) => name)
      assert.deepEqual(explained, alerts)
    })
  })

  describe('the table of metrics in docs/operations.md', () => {
    it('lists every metric of Plinth with its type and help', () => {
      const rows = [...metrics]
        .filter(([name]) => name.startsWith('plinth_'))
        .map(([name, { type, help }]) => `| \`${name}\` | ${type} | ${help} |\n`)
      expectTable('operations.md', '| Metric | Type | |\n|---|---|---|\n', rows)
    })
  })
})
