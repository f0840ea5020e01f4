import { Command, InvalidArgumentError } from 'commander'
import { type Anchor, verifyAudit } from '../audit/chain.ts'
import { type AuditFilter, auditPage, auditView } from '../audit/routes.ts'
import type { Config } from '../config/config.ts'
import { instantOf } from '../http/headers/instant.ts'
import type { AuditRow } from '../storage/tables/administration.ts'
import type { Stores } from '../stores.ts'
import { print, withStores } from './print.ts'

/** `plinth audit …`: reads the audit log, like /api/audit, and verifies its integrity. */
export function auditCommand(configuration: () => Config): Command {
  const using = withStores(configuration)
  const audit = new Command('audit')
  audit
    .command('list')
    .description('Print entries, newest first')
    .option('--event <event>', 'only of this kind, such as client.revoked')
    .option('--client <id>', 'only of this client')
    .option('--subject <subject>', 'only in this name')
    .option('--target <target>', 'only about this')
    .option('--from <instant>', 'only of this instant or later', instant)
    .option('--to <instant>', 'only before this instant', instant)
    .option('--limit <entries>', 'how many, 50 without it', count, 50)
    .option('--json', 'one JSON object a line')
    .action((options) => using((stores) => list(stores, options)))
  audit
    .command('verify')
    .description('Check every entry against the chain; ends with 1 when the log was altered')
    .option('--expect <sequence:hash>', 'a place noted at an earlier check, which must still be there', anchor)
    .action(({ expect }) => using((stores) => verify(stores, expect)))
  return audit
}

/** Passed on unchanged; the page of entries parses it. */
function instant(text: string): string {
  if (instantOf(text) !== undefined) return text
  throw new InvalidArgumentError('It must be an instant such as 2026-11-22T18:00:00Z, or a day such as 2026-11-22.')
}

function count(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1 on.')
  return Number(text)
}

function anchor(text: string): Anchor {
  const [, sequence, hash] = /^([1-9]\d{0,14}):([\w-]{43})$/.exec(text) ?? []
  if (hash === undefined)
    throw new InvalidArgumentError(
      'It must be a sequence and a hash as an earlier check printed them, such as 1204:KkX….',
    )
  return { sequence: Number(sequence), hash }
}

type ListOptions = Omit<AuditFilter, 'clientId'> & { client?: string; limit: number; json?: boolean }

async function list({ db }: Stores, { client, limit, json, ...filter }: ListOptions): Promise<void> {
  const asked = { ...filter, ...(client !== undefined && { clientId: client }) }
  for (let [left, cursor] = [limit, ''] as [number, string | undefined]; left > 0 && cursor !== undefined; ) {
    const { rows, cursors } = await auditPage(db, { ...asked, limit: left, ...(cursor && { cursor }) })
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
  if (!verdict.whole) throw new Error(`The audit log is not whole: entry ${verdict.sequence} ${verdict.reason}`)
  print(`The audit log is whole: ${verdict.sequence} entries`)
  if (verdict.sequence > 0)
    print(`Note this elsewhere for the next check:  --expect ${verdict.sequence}:${verdict.hash}`)
}
