import { open, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Command, InvalidArgumentError } from 'commander'
import { archivedEntries } from '../audit/archive-file.ts'
import { type Anchor, auditArchives, monthForm, newestArchive } from '../audit/archives.ts'
import { auditEvents, auditView } from '../audit/chain.ts'
import { type AuditFilter, auditPage } from '../audit/entries.ts'
import { verifyArchives, verifyAudit } from '../audit/verify.ts'
import type { Config } from '../config/config.ts'
import { resultsUrlOf } from '../config/storage.ts'
import type { ResultStore } from '../files/store.ts'
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
    .option('--archive', 'also verify the archived months')
    .action((options) => using((stores) => verify(stores, configuration(), options)))
  audit
    .command('archives')
    .description('Print the archived months')
    .option('--json', 'print one JSON object per line')
    .action(({ json }) => using((stores) => archives(stores, json)))
  audit
    .command('export')
    .description('Verify an archived month, and write its entries as one JSON object per line')
    .argument('[file]', 'a new file; standard output by default')
    .requiredOption('--month <month>', 'the month, such as 2026-01', month)
    .action((file, options) => using((stores) => exportMonth(stores, configuration(), options.month, file)))
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

function month(text: string): string {
  if (monthForm.test(text)) return text
  throw new InvalidArgumentError('It must be a year and a month, such as 2026-01.')
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
    if (cursor === undefined) await noteArchives(db)
  }
}

/** Prints to standard error which entries are missing from the output because they are archived. */
async function noteArchives(db: Stores['db']): Promise<void> {
  const archive = await newestArchive(db.read)
  if (archive === undefined) return
  const about = `Entries up to number ${archive.lastSequence} (${archive.month}) are archived`
  process.stderr.write(`${about}: plinth audit export --month ${archive.month}\n`)
}

function line({ sequence, at, event, clientId, subject, target, address, details }: AuditRow): string {
  const who = [clientId, subject === clientId ? null : subject, address].filter(Boolean).join(' ')
  return [sequence, at, event, target, who && `by ${who}`, details].filter(Boolean).join('  ')
}

async function verify(
  { db, sealer }: Stores,
  config: Config,
  { expect, archive = false }: { expect?: Anchor; archive?: boolean },
): Promise<void> {
  const newest = await newestArchive(db.read)
  if (expect && newest && expect.sequence < newest.lastSequence && !archive) {
    throw new Error(`Entry ${expect.sequence} is archived; verify it with --archive`)
  }
  const verdict = await verifyAudit(db, sealer, expect)
  if (!verdict.whole) throw new Error(`The audit log was altered: entry ${verdict.sequence} ${verdict.reason}`)
  if (archive) {
    const archived = await verifyArchives(db, sealer, await storeOf(config), expect)
    if (!archived.whole) throw new Error(`The archive of the audit log was altered: ${archived.reason}`)
    print(`The archived months are intact: ${archived.archives}, up to entry ${archived.sequence}`)
  }
  const from = newest && !archive ? ` after the archived entry ${newest.lastSequence}` : ''
  print(`The audit log is intact${from}: ${verdict.sequence} entries`)
  if (verdict.sequence > 0)
    print(`Store this elsewhere for the next check:  --expect ${verdict.sequence}:${verdict.hash}`)
}

/** Opens the result store. It is imported on demand, because only archives need it. */
async function storeOf({ storage }: Config): Promise<ResultStore> {
  const { openResults } = await import('../files/open.ts')
  return openResults(resultsUrlOf(storage))
}

async function archives({ db }: Stores, json = false): Promise<void> {
  for (const { digest, ...archive } of await auditArchives(db)) {
    const { month, key, firstSequence, lastSequence, sizeBytes } = archive
    print(
      json
        ? JSON.stringify(archive)
        : `${month}  ${key}  entries ${firstSequence} to ${lastSequence}  ${sizeBytes} bytes`,
    )
  }
}

async function exportMonth({ db, sealer }: Stores, config: Config, month: string, file?: string): Promise<void> {
  const found = await auditArchives(db)
  const archive = found.find((one) => one.month === month)
  if (archive === undefined) {
    const [first, last] = [found[0]?.month, found.at(-1)?.month]
    const known = first === undefined ? '' : `, but ${first} to ${last} are`
    throw new Error(`${month} is not archived${known}; plinth audit list --from ${month}-01 prints its entries`)
  }
  const store = await storeOf(config)
  const entries = () => archivedEntries(store, sealer, archive)
  const lines = () => Readable.from(entries()).map((row) => `${JSON.stringify(auditView(row))}\n`)
  if (file === undefined) {
    // Verify the archive before printing it, because output cannot be withdrawn if the end of the archive is invalid.
    for await (const _ of entries());
    return pipeline(lines(), process.stdout, { end: false })
  }
  const target = await open(file, 'wx', 0o600)
  await pipeline(lines(), target.createWriteStream()).catch(async (error) => {
    await rm(file)
    throw error
  })
}
