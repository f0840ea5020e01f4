import { spawnSync } from 'node:child_process'
import type { Measurement } from './bench.ts'
import { commandExport, compareExports, type Export } from './compare-exports.ts'
import { serviceExport } from './report.ts'
import { startService } from './service.ts'

const title = 'CSV report of products, PostgreSQL'
const about = { name: 'report-postgres', title, floor: 0.7, reference: 'psql, COPY' }

/** The CSV report where the database is PostgreSQL, against `psql` with COPY; BENCH_DATABASE_URL names the server. */
export const postgresRow: Measurement = {
  name: about.name,
  measure: async (bench) => {
    const server = process.env.BENCH_DATABASE_URL
    if (server === undefined) return { ...about, skipped: 'BENCH_DATABASE_URL names no server' }
    if (spawnSync('psql', ['--version']).status !== 0) return { ...about, skipped: 'psql is not installed' }
    const name = `plinth_bench_${process.pid}`
    const url = Object.assign(new URL(server), { pathname: `/${name}` }).href
    psql(server, `create database ${name}`)
    try {
      const service = await startService(bench.place, bench.options, bench.pin, {
        name: 'postgres',
        database: { url, fill: (rows) => fill(url, rows) },
      })
      const row = await compareExports({ ...bench, service }, about, bench.options.rows, {
        reference: copied(url),
        service: ({ service }, rows) => serviceExport(service, 'csv', rows),
      })
      await service.stop()
      return row
    } finally {
      psql(server, `drop database if exists ${name} with (force)`)
    }
  },
}

/** The same columns by the command line. */
const copied =
  (url: string): Export =>
  (bench, count) => {
    const query = 'select id, name, price, created_at, updated_at from products order by id'
    return commandExport(bench, ['psql', url, '-qc', `copy (${query}) to stdout (format csv, header)`], count)
  }

function fill(url: string, rows: number): void {
  psql(
    url,
    `insert into products (name, name_key, price, revision, created_at, updated_at)
     select name, lower(name), (i::bigint * 7919 % 90000 + 10001) / 100.0, 1, at, at
     from (select i, 'Brass' || case when i % 10 = 0 then ', old' else '' end || ' anvil ' || lpad(i::text, 7, '0') as name,
       to_char(timestamp '2024-01-01' + i * interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS.000"Z"') as at
       from generate_series(1, ${rows}) i) made`,
  )
  psql(url, 'vacuum analyze products')
}

function psql(url: string, statement: string): void {
  const { status, stderr } = spawnSync('psql', [url, '-qc', statement], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`psql failed: ${stderr}`)
}
