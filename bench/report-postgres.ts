import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, createReadStream, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Bench, Measurement } from './bench.ts'
import { pinned, serverCore } from './machine.ts'
import { withRatio } from './measured.ts'
import { forgetPeak, memoryOf } from './memory.ts'
import { meterOf } from './meter.ts'
import { quietest } from './quietest.ts'
import { type Exported, expectLines, serviceExport, sideLine } from './report.ts'
import { type Service, startService } from './service.ts'

const about = { name: 'report-postgres', title: 'CSV report of products, PostgreSQL', floor: 0.7 }

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
      const row = await compare(bench, service, url)
      await service.stop()
      return row
    } finally {
      psql(server, `drop database if exists ${name} with (force)`)
    }
  },
}

async function compare({ options, place, pin, say }: Bench, service: Service, url: string) {
  const { rows } = options
  say(`${about.title}: ${rows.toLocaleString('en')} rows`)
  forgetPeak(service.pid)
  const measured = (side: string, measureOnce: () => Promise<Exported>) =>
    quietest(async () => {
      const exported = await measureOnce()
      say(`  ${side.padEnd(9)} ${sideLine(exported)}`)
      return exported
    })
  const rounds = []
  for (let round = 1; round <= options.rounds; round++) {
    rounds.push({
      reference: await measured('reference', () => copied({ place, pin }, url, rows)),
      service: await measured('service', () => serviceExport(service, 'csv', rows)),
    })
  }
  return withRatio({
    ...{ ...about, rounds, memory: memoryOf(service.pid) },
    ...{ unit: 'rows' as const, reference: 'psql, COPY' },
  })
}

/** The same columns by the command line, from the start of the process to its end. */
async function copied({ place, pin }: Pick<Bench, 'place' | 'pin'>, url: string, rows: number): Promise<Exported> {
  const file = join(place.folder, 'reference-copy.csv')
  const output = openSync(file, 'w')
  const query = 'select id, name, price, created_at, updated_at from products order by id'
  const command = ['psql', url, '-qc', `copy (${query}) to stdout (format csv, header)`]
  const start = performance.now()
  const child = place.start(pinned(pin, serverCore, command), { stdio: ['ignore', output, 'inherit'] })
  const meter = meterOf(child.pid as number)
  const looking = setInterval(meter.look, 10)
  const [code] = await once(child, 'exit')
  const perSecond = (rows * 1_000) / (performance.now() - start)
  clearInterval(looking)
  closeSync(output)
  if (code !== 0) throw new Error(`psql ended with ${code}`)
  const used = meter.read(rows)
  await expectLines(createReadStream(file), rows + 1)
  rmSync(file)
  return { perSecond, wholePerSecond: perSecond, ...used }
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
