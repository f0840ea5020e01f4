import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { ended, killAll, newPlace, plinth, serving, succeeding } from './support.ts'

after(killAll)

describe('plinth backup and plinth restore', () => {
  it('copy a running service to a new data folder; exit code 2 for a target in use, 1 for a broken backup', async (t) => {
    const [one, two] = [await newPlace(), await newPlace()]
    t.after(() => {
      one.remove()
      two.remove()
    })
    const service = await serving(one.dataDir, one.port, one.env)
    const file = join(two.dataDir, 'backups', 'one.backup')
    const missing = await ended(plinth(['backup', file], one.env))
    assert.deepEqual(
      [missing.code, missing.stderr],
      [2, `plinth: The folder ${join(two.dataDir, 'backups')} does not exist\n`],
    )
    const plain = join(one.dataDir, 'plain.backup')
    const written = await ended(plinth(['backup', plain], one.env))
    assert.equal(written.code, 0)
    assert.match(
      written.stderr,
      /will contain the master key in plain form: .* use --encrypt or --without-keys\n {2}ok {2}Backup/,
    )
    assert.match(
      written.stdout,
      /^Wrote .*plain\.backup, [\d.]+ kB\n {2}Taken .* on SQLite, not encrypted\n {2}Database .* rows in/s,
    )
    assert.equal(statSync(plain).mode & 0o777, 0o600)

    const again = await ended(plinth(['backup', plain], one.env))
    assert.deepEqual([again.code, again.stdout], [2, ''])
    assert.match(again.stderr, /plain\.backup exists and is not overwritten/)

    const secret = { PLINTH_BACKUP_PASSPHRASE: 'correct horse battery staple' }
    const sealed = join(one.dataDir, 'sealed.backup')
    const created = JSON.parse(await succeeding({ ...one.env, ...secret })('backup', sealed, '--json'))
    assert.deepEqual([created.encrypted, created.engine, created.database.tables.users], [true, 'sqlite', 1])
    assert.match(readFileSync(sealed, 'latin1').split('\n', 2)[1] ?? '', /^-> scrypt \S+ 17$/)
    assert.equal(await succeeding({ ...one.env, ...secret })('backup', '--verify', sealed, '--quiet'), '')
    const unknown = await ended(plinth(['backup', '--verify', sealed], one.env))
    assert.equal(unknown.code, 1)
    assert.match(unknown.stderr, /sealed\.backup is broken: the passphrase is wrong, or the first bytes were altered/)

    const bytes = readFileSync(plain)
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1
    const altered = join(one.dataDir, 'altered.backup')
    writeFileSync(altered, bytes)
    const broken = await ended(plinth(['restore', altered], two.env))
    assert.equal(broken.code, 1)
    assert.match(broken.stderr, /altered\.backup is broken, and nothing was restored: /)

    const inUse = await ended(plinth(['restore', plain], one.env))
    assert.equal(inUse.code, 2)
    assert.match(inUse.stderr, /A database exists: .*plinth\.db/)
    const restored = await ended(plinth(['restore', plain], two.env))
    assert.equal(restored.code, 0)
    assert.match(restored.stdout, /^Restored .*plain\.backup to .*\n.*Next: start the service with `plinth serve`/s)
    assert.equal(await succeeding(two.env)('clients', 'list'), await succeeding(one.env)('clients', 'list'))
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 0)
  })
})
