import { resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Bench, Measurement } from './bench.ts'
import { memoryOf, resetPeak } from './cpu-and-memory.ts'
import type { Target } from './http.ts'
import { alternate, pages, runOnce } from './requests.ts'
import { withRatio } from './results.ts'
import { nameOf, type OwnDefinition, startService } from './service.ts'

/** Maximum number of orders; half of them belong to the caller's tenant. */
const maxOrders = 100_000

const definition: OwnDefinition = {
  file: resolve(import.meta.dirname, 'orders.ts'),
  scopes: 'customers:read orders:read restricted-orders:read',
  path: '/',
  fill: (file, count) => {
    const db = new DatabaseSync(file)
    db.exec('pragma synchronous = off; begin')
    const at = '2026-01-01T00:00:00.000Z'
    const customer = db.prepare(
      'insert into resource_customers (name, revision, created_at, updated_at) values (?, 1, ?, ?)',
    )
    const columns = 'customer_id, tenant, tenant_key, total, revision, created_at, updated_at'
    const values = 'values (?, ?, ?, ?, 1, ?, ?)'
    const order = db.prepare(`insert into resource_orders (${columns}) ${values}`)
    const restricted = db.prepare(`insert into resource_restricted_orders (${columns}) ${values}`)
    for (let id = 1; id <= Math.min(count, maxOrders) / 10; id++) customer.run(nameOf(id), at, at)
    for (let id = 1; id <= Math.min(count, maxOrders); id++) {
      const tenant = id % 2 === 0 ? 'north' : 'south'
      const cells = [Math.ceil(id / 10), tenant, tenant, id, at, at] as const
      order.run(...cells)
      restricted.run(...cells)
    }
    db.exec('commit; pragma wal_checkpoint(truncate)')
    db.close()
  },
}

/** A list and the reference list with which it is compared. */
interface ListRow {
  name: string
  title: string
  floor: number
  path: string
  referencePath: string
}

const rows: ListRow[] = [
  {
    name: 'list-rule',
    title: 'list of 50 under an access rule',
    floor: 0.9,
    path: '/restricted-orders?limit=50',
    referencePath: '/orders?tenant=north&limit=50',
  },
  {
    name: 'list-expand',
    title: 'list of 50 with one expansion',
    floor: 0.6,
    path: '/orders?limit=50&expand=customer',
    referencePath: '/orders?limit=50',
  },
]

/**
 * Compares a list under an access rule to a list with the equivalent filter, and a list with an expansion to the same
 * list without one.
 */
export const ownListRows: Measurement[] = rows.map((row) => ({
  name: row.name,
  measure: (bench) => measure(bench, row),
}))

async function measure(bench: Bench, { name, title, floor, path, referencePath }: ListRow) {
  const service = await startService(bench.sandbox, bench.options, bench.pin, { name, definition })
  const reference: Target = { ...service, name: 'reference' }
  const context = { ...bench, service, reference }
  resetPeak(service.pid)
  const run = (target: Target, seconds: number) => {
    const first = target === service ? path : referencePath
    const requests = (headers: Record<string, string>) => pages(service, headers, first)
    return runOnce(context, { name, title, floor, status: 200, referenceStatus: 200, requests }, target, seconds)
  }
  const rounds = await alternate(context, title, { reference, service }, run)
  service.trimLog()
  const memory = memoryOf(service.pid)
  await service.stop()
  return withRatio({ name, title, floor, unit: 'requests', reference: referencePath, rounds, memory })
}
