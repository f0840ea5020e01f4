import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { archiveAudit } from '../../src/audit/archive-sweep.ts'
import { appendAudit, theService } from '../../src/audit/chain.ts'
import { readConfig } from '../../src/config/config.ts'
import { folderResults } from '../../src/files/folder.ts'
import { openStores } from '../../src/stores.ts'
import { commandRunner, ended, newPlace, plinth } from './support.ts'

const { dataDir, env, remove } = await newPlace()
const commands = commandRunner(env)
after(() => {
  commands.close()
  remove()
})

describe('plinth audit with archived months', () => {
  let anchors: string[]
  let archiveFile: string
  before(async () => {
    const { db, sealer } = await openStores(readConfig(env))
    const entries = ['2025-01-05', '2025-01-06', '2025-02-05'].map((day, n) => ({
      ...{ ...theService, event: 'key.created' as const, at: `${day}T00:00:00.000Z`, target: `key_${n}` },
    }))
    await db.write((tx) => appendAudit(tx, sealer, entries))
    const rows = await db.read.selectFrom('auditEntries').selectAll().orderBy('sequence').execute()
    anchors = rows.map(({ sequence, hash }) => `${sequence}:${hash}`)
    const now = () => Date.parse('2025-03-15T00:00:00.000Z')
    await archiveAudit({ db, store: folderResults(join(dataDir, 'results')), sealer, months: 1, now, clock: now })()
    await db.close()
    archiveFile = join(dataDir, 'results', `audit-2025-01-${rows[1]?.hash.slice(0, 8)}.ndjson.gz`)
  })

  it('`archives` lists each archived month with its file, entry numbers and size', async () => {
    const { stdout } = await ended(plinth(['audit', 'archives'], env))
    const { size } = statSync(archiveFile)
    assert.equal(stdout, `2025-01  ${basename(archiveFile)}  entries 1 to 2  ${size} bytes\n`)
    const [listed] = (await commands.run(['audit', 'archives', '--json'])).stdout.split('\n')
    const { month, firstSequence, lastSequence, lastHash, sha256 } = JSON.parse(listed as string)
    assert.deepEqual([month, firstSequence, `${lastSequence}:${lastHash}`], ['2025-01', 1, anchors[1]])
    assert.match(sha256, /^[A-Za-z0-9+/]{43}=$/)
  })

  it('`list` prints the entries in the database and, on standard error, which entries are archived', async () => {
    const { stdout, stderr } = await commands.run(['audit', 'list', '--json'])
    assert.deepEqual(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).sequence),
      [4, 3],
    )
    assert.equal(stderr, 'Entries up to number 2 (2025-01) are archived: plinth audit export --month 2025-01\n')
    assert.equal((await commands.run(['audit', 'list', '--limit', '1'])).stderr, '')
  })

  it('`verify` checks the database and, with --archive, also the archived months', async () => {
    const { stdout } = await commands.run(['audit', 'verify'])
    assert.match(stdout, /^The audit log is intact after the archived entry 2: 4 entries\n/)
    const both = await commands.run(['audit', 'verify', '--archive', '--expect', anchors[0] as string])
    assert.match(both.stdout, /^The archived months are intact: 1, up to entry 2\nThe audit log is intact: 4 entries\n/)
    const alone = await commands.run(['audit', 'verify', '--expect', anchors[0] as string])
    assert.deepEqual([alone.code, alone.stderr], [1, 'plinth: Entry 1 is archived; verify it with --archive\n'])
    const border = await commands.run(['audit', 'verify', '--expect', anchors[1] as string])
    assert.equal(border.code, 0)
  })

  it('`export` writes the entries of a month to a new file with mode 0600, or to standard output', async () => {
    const file = join(dataDir, 'january.ndjson')
    assert.equal((await commands.run(['audit', 'export', '--month', '2025-01', file])).code, 0)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    const text = readFileSync(file, 'utf8')
    assert.deepEqual(
      text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).target),
      ['key_0', 'key_1'],
    )
    const { stdout } = await ended(plinth(['audit', 'export', '--month', '2025-01'], env))
    assert.equal(stdout, text)
    const again = await commands.run(['audit', 'export', '--month', '2025-01', file])
    assert.deepEqual([again.code, /EEXIST/.test(again.stderr), readFileSync(file, 'utf8')], [1, true, text])
  })

  it('`export` refuses an invalid month, and a month that is not archived', async () => {
    const { code, stderr } = await commands.run(['audit', 'export', '--month', '2025-02'])
    const expected =
      '2025-02 is not archived, but 2025-01 to 2025-01 are; plinth audit list --from 2025-02-01 prints its entries'
    assert.deepEqual([code, stderr], [1, `plinth: ${expected}\n`])
    assert.match((await commands.run(['audit', 'export', '--month', '2025-13'])).stderr, /a year and a month/)
  })

  it('`verify --archive` and `export` name a damaged archive; `export` leaves no file and prints no entry', async () => {
    const bytes = readFileSync(archiveFile)
    writeFileSync(archiveFile, bytes.subarray(0, bytes.length - 9))
    const verified = await commands.run(['audit', 'verify', '--archive'])
    assert.equal(verified.code, 1)
    assert.match(verified.stderr, /^plinth: The archive of the audit log was altered: audit-2025-01-\S+ is damaged/)
    const file = join(dataDir, 'damaged.ndjson')
    const exported = await commands.run(['audit', 'export', '--month', '2025-01', file])
    assert.deepEqual([exported.code, existsSync(file)], [1, false])
    assert.match(exported.stderr, /audit-2025-01-\S+ is damaged/)
    const printed = await ended(plinth(['audit', 'export', '--month', '2025-01'], env))
    assert.deepEqual([printed.code, printed.stdout], [1, ''])
    writeFileSync(archiveFile, bytes)
  })
})
