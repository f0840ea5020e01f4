import { Command, InvalidArgumentError } from 'commander'
import { type Anchor, auditEvents, verifyAudit } from '../audit/chain.ts'
import { type AuditFilter, auditPage, auditView } from '../audit/routes.ts'
import type { Config } from '../config/config.ts'
import { instantOf } from '../http/headers/instant.ts'
import { nearest } from '../http/nearest.ts'
import type { AuditRow } from '../storage/tables/administration.ts'
import type { Stores } from '../stores.ts'
import { print, withStores } from './print.ts'

/** Creates `plinth audit …`, which reads the audit log, like GET /api/audit, and verifies its integrity. */
export function auditCommand(configuration: () => Config): Command {
  const using = withStores(configuration)
  const audit = new Command('audit')
  audit
    .command('list')
    .description('Print entries, newest first')
    .option('--event <event>', 'only this event, such as client.revoked', event)
    .option('--client <id>', 'only entries caused by this client')
    .option('--subject <subject>', 'only entries caused by this user or client')
    .option('--target <target>', 'only entries about this object, such as a client or user id')
    .option('--from <instant>', 'only entries at or after this instant', instant)
    .option('--to <instant>', 'only entries before this instant', instant)
    .option('--limit <entries>', 'maximum number of entries', count, 50)
    .option('--json', 'print one JSON object per line')
    .action((options) => using((stores) => list(stores, options)))
  audit
    .command('verify')
    .description('Verify the hash chain of all entries; exit code 1 if the log was altered')
    .option('--expect <sequence:hash>', 'an entry printed by an earlier check, which must still exist', anchor)
    .action(({ expect }) => using((stores) => verify(stores, expect)))
  return audit
}

function event(text: string): string {
  if (auditEvents.some((known) => known === text)) return text
  const meant = nearest(text, auditEvents)
  throw new InvalidArgumentError(
    meant ? `Did you mean ${meant}?` : `It must be one of ${auditEvents.toSorted().join(', ')}.`,
  )
}

/** Validates an instant but returns it as text, because `auditPage` parses it. */
function instant(text: string): string {
  if (instantOf(text) !== undefined) return text
  throw new InvalidArgumentError('It must be an instant such as 2026-11-22T18:00:00Z, or a day such as 2026-11-22.')
}

function count(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a whole number, 1 or more.')
  return Number(text)
}

function anchor(text: string): Anchor {
  const [, sequence, hash] = /^([1-9]\d{0,14}):([\w-]{43})$/.exec(text) ?? []
  if (hash === undefined)
    throw new InvalidArgumentError('It must be the sequence and hash printed by an earlier check, such as 1204:KkX….')
  return { sequence: Number(sequence), hash }
}

type ListOptions = Omit<AuditFilter, 'clientId'> & { client?: string; limit: number; json?: boolean }

async function list({ db }: Stores, { client, limit, json, ...filter }: ListOptions): Promise<void> {
  const query = { ...filter, ...(client !== undefined && { clientId: client }) }
  for (let [left, cursor] = [limit, ''] as [number, string | undefined]; left > 0 && cursor !== undefined; ) {
    const { rows, cursors } = await auditPage(db, { ...query, limit: left, ...(cursor && { cursor }) })
    for (const row of rows) print(json ? JSON.stringify(auditView(row)) : line(row))
    left -= rows.length
    cursor = cursors.next
  }
}

function line({ sequence, at, event, clientId, subject, target, address, details }: AuditRow): string {
  const who = [clientId, subject === clientId ? null : subject, address].filter(Boolean).join(' ')
  return [sequence, at, event, target, who && `by ${who}`, details].filter(Boolean).join('  ')
}

async function verify({ db, sealer }: Stores, expected: Anchor | undefined): Promise<void> {
  const verdict = await verifyAudit(db, sealer, expected)
  if (!verdict.whole) throw new Error(`The audit log was altered: entry ${verdict.sequence} ${verdict.reason}`)
  print(`The audit log is intact: ${verdict.sequence} entries`)
  if (verdict.sequence > 0)
    print(`Store this elsewhere for the next check:  --expect ${verdict.sequence}:${verdict.hash}`)
}
