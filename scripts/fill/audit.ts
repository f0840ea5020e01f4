import { type AuditEvent, chainHash } from '../../src/audit/chain.ts'
import type { Database } from '../../src/storage/database.ts'
import type { Sealer } from '../../src/storage/encryption.ts'
import type { Lot } from './tables.ts'
import { withoutIndexes } from './target.ts'

const batch = 5_000
const columns = 'sequence, at, event, client_id, subject, target, address, request_id, details, hash'
const stepMs = 250

/** Appends entries to the audit log with a valid hash chain, so that `verifyAudit` succeeds. */
export async function addAudit(lot: Lot, db: Database, sealer: Sealer, count: number): Promise<void> {
  if (count === 0) return
  const { target, say, nowMs } = lot
  const start = performance.now()
  const head = await db.read.selectFrom('auditHead').selectAll().executeTakeFirstOrThrow()
  let { sequence, hash } = head
  const insert = insertOf(target.engine)
  await withoutIndexes(target, 'audit_entries', async () => {
    for (let done = 0; done < count; done += batch) {
      const rows: (string | number | null)[][] = []
      for (let n = done; n < Math.min(count, done + batch); n++) {
        sequence++
        const row = entryOf(lot, n, sequence, new Date(nowMs - (count - n) * stepMs).toISOString())
        hash = chainHash(sealer, row, hash)
        rows.push([...Object.values(row), hash])
      }
      await target.run(insert, [JSON.stringify(rows)])
      if ((done / batch) % 100 === 99) say(`  audit_entries: ${(done + batch).toLocaleString('en')}`)
    }
    await target.run('update audit_head set sequence = $1, hash = $2 where id = 1', [sequence, hash])
  })
  const seconds = ((performance.now() - start) / 1_000).toFixed(1)
  say(`audit_entries: ${count.toLocaleString('en')} rows in ${seconds} s`)
}

function insertOf(engine: 'sqlite' | 'postgres'): string {
  const value = (at: number) => (at === 0 ? `cast(value ->> ${at} as bigint)` : `value ->> ${at}`)
  const values = Array.from({ length: 10 }, (_, at) => value(at)).join(', ')
  const rows = engine === 'sqlite' ? 'json_each($1)' : 'jsonb_array_elements($1::jsonb) as rows (value)'
  return `insert into audit_entries (${columns}) select ${values} from ${rows}`
}

/**
 * Creates an entry. Most entries are about tokens and have no target; one in 1,000 is about an API key, and one in
 * 100,000 about the webhook.
 */
function entryOf({ client, webhook, tag }: Lot, n: number, sequence: number, at: string) {
  const event: AuditEvent = n % 1_000 === 3 ? 'key.created' : n % 100_000 === 7 ? 'webhook.updated' : 'token.granted'
  const clientId = n % 3 === 0 ? client.id : `cli_${tag}${n % 997}`
  const target = event === 'key.created' ? `key_${tag}${n}` : event === 'webhook.updated' ? webhook.id : null
  const details = event === 'token.granted' ? JSON.stringify({ grant: 'client_credentials' }) : null
  const from = { address: `198.51.100.${n % 250}`, requestId: `fill-${tag}-${n}` }
  return { sequence, at, event, clientId, subject: clientId, target, ...from, details }
}
