import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { verifyAudit } from '../../src/audit/verify.ts'
import { type MasterKeyRotation, type RotationStep, rotateMasterKey } from '../../src/cli/keys/rotation.ts'
import type { Config } from '../../src/config/config.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { keysLoadedWithinMs } from '../../src/storage/data-keys/open.ts'
import { storedDataKeys } from '../../src/storage/data-keys/stored.ts'
import type { Database } from '../../src/storage/database.ts'
import { fingerprintOf } from '../../src/storage/encryption.ts'
import { lockSqlite } from '../../src/storage/sqlite/lock.ts'
import { existingMasterKey, openStores, openStoresIn, type Stores, sealedColumns } from '../../src/stores.ts'
import { newRegistration } from '../../src/webhooks/registrations.ts'
import { backUp, configIn, newFolder, placeIn, restoreTo, type Serving, serve } from '../backup/support.ts'
import { type EngineUnderTest, forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { isSigned, ok, receiver } from '../support/webhooks.ts'
import { commandRunner } from './support.ts'

const hexKey = () => randomBytes(32).toString('hex')
const refused = { exitCode: 2, message: /is not the master key that encrypted it$/ }

/** Returns a function that adds steps to run after the test, in reverse order. */
function closersOf(t: TestContext) {
  const closers: (() => unknown)[] = []
  t.after(async () => {
    for (const closer of closers.reverse()) await closer()
  })
  return (closer: () => unknown) => void closers.push(closer)
}

/** Creates a folder and a database for a service. `withKey` returns its configuration with the given master key. */
async function newPlace(t: TestContext, engine: EngineUnderTest) {
  const [{ folder, remove }, place, onClose] = [newFolder(), await engine.migratedPlace(), closersOf(t)]
  onClose(remove)
  onClose(place.remove)
  const settings = { PLINTH_PORT: String(await freePort()), DATABASE_URL: place.url }
  const withKey = (PLINTH_MASTER_KEY: string) => configIn(folder, { ...settings, PLINTH_MASTER_KEY })
  return { folder, withKey, onClose }
}

const keyOf = ({ storage }: Config) => existingMasterKey(storage.masterKey, storage.dataDir) as Buffer

interface Rotating extends Partial<MasterKeyRotation> {
  config: Config
  next?: string
}

/** Rotates the master key like `plinth keys rotate-master`, by default without waiting; returns outcome and steps. */
async function rotate({ config, next, ...more }: Rotating) {
  const stores = await openStores(config)
  const steps: RotationStep[] = []
  try {
    const outcome = await rotateMasterKey({
      ...{ stores, current: keyOf(config), replaceKey: undefined, startOver: false, now: Date.now },
      loadedWithinMs: keysLoadedWithinMs,
      ...{ random: (size: number) => randomBytes(size), wait: async () => {}, onStep: (step) => steps.push(step) },
      nextKey: () => (next === undefined ? undefined : Buffer.from(next, 'hex')),
      ...more,
    })
    return { outcome, steps }
  } finally {
    await stores.db.close()
  }
}

async function tablesOf({ read, engine }: Database): Promise<string[]> {
  const list =
    engine.name === 'sqlite'
      ? sql<{ name: string }>`select name from sqlite_master where type = 'table'`
      : sql<{ name: string }>`
        select quote_ident(schemaname) || '.' || quote_ident(tablename) as name from pg_tables
        where schemaname not in ('pg_catalog', 'information_schema')`
  return (await list.execute(read)).rows.map(({ name }) => name)
}

/** Finds all encrypted texts in the database. Returns the ids of their data keys by `table.column`. */
async function sealedTexts(db: Database): Promise<Map<string, Set<number>>> {
  const found = new Map<string, Set<number>>()
  for (const table of await tablesOf(db)) {
    const { rows } = await sql<object>`select * from ${sql.raw(table)}`.execute(db.read.withoutPlugins())
    for (const [column, value] of rows.flatMap((row) => Object.entries(row))) {
      for (const [, id] of JSON.stringify(value ?? '').matchAll(/"v(?:1|2\.(\d+))\.[\w-]{38,}/g)) {
        const place = `${table.replace(/^public\./, '')}.${column}`
        found.set(place, (found.get(place) ?? new Set()).add(Number(id ?? 1)))
      }
    }
  }
  return found
}

/** Stores every kind of secret, and returns functions that check that the secrets still work. */
async function usedService(t: TestContext, service: Serving) {
  const { calls, url } = await receiver(t, ok)
  const token = await service.token()
  const headers = { 'x-receiver-token': 'letmein' }
  const body = { event: 'report.completed', callbackUrl: url, headers }
  const key = { 'idempotency-key': 'first-webhook-0001' }
  const create = () => service.call('POST', '/api/webhooks', { token, body, headers: key })
  const { id } = (await create()).json()
  const rotated = await service.call('POST', `/api/webhooks/${id}/rotate-secret`, { token, body: {} })
  const { secret } = rotated.json()
  const first = (await create()).json().secret
  const account = (await service.call('GET', '/api/webhooks/secret', { token })).json().secret
  await service.call('POST', '/api/webhooks/secret/rotate', { token, body: {} })
  const newAccount = (await service.call('GET', '/api/webhooks/secret', { token })).json().secret
  const check = async ({ call, token: newToken }: Serving) => {
    assert.equal(typeof (await newToken()), 'string', 'a client gets a token with its secret')
    const read = await call('GET', `/api/webhooks/${id}`, { token })
    assert.deepEqual([read.status, read.json().headers], [200, headers], read.bytes.toString())
    const replay = await call('POST', '/api/webhooks', { token, body, headers: key })
    assert.deepEqual([replay.status, replay.json().secret], [201, first], replay.bytes.toString())
    assert.equal((await call('GET', '/api/webhooks/secret', { token })).json().secret, newAccount)
    assert.notEqual(account, newAccount)
  }
  const checkSignature = async ({ call }: Serving) => {
    const { length } = calls
    assert.equal((await call('POST', `/api/webhooks/${id}/test`, { token, body: {} })).status, 202)
    const received = await eventually('the webhook is called', async () => calls[length])
    for (const valid of [secret, first]) assert.ok(isSigned(valid, received))
    assert.equal(received.headers['x-receiver-token'], 'letmein')
  }
  return { check, checkSignature }
}

/** Loads the keys twice: the first load may have begun, or share a read transaction that began, before the change. */
async function loadChangedKeys(reload: () => Promise<void>): Promise<void> {
  await reload()
  await setImmediate()
  await reload()
}

/**
 * Repeats a check until `stop` is called. `stop` returns how often the check has passed; `again` resolves once a check
 * that began after the call has passed.
 */
function continuously(t: TestContext, check: () => Promise<void>) {
  let isStopped = false
  let count = 0
  t.after(() => {
    isStopped = true
  })
  const running = (async () => {
    for (; !isStopped; count++) await check()
  })()
  return {
    stop: async () => {
      isStopped = true
      await running
      return count
    },
    again: async () => {
      const before = count
      // Rejects with the error of a failed check, after which the count stays the same.
      await Promise.race([running, eventually('a check passes', async () => count >= before + 2)])
    },
  }
}

function serving(engine: EngineUnderTest): void {
  it('succeeds while a service runs: no request fails, and no value encrypted with the old data key remains', async (t) => {
    const { withKey, onClose } = await newPlace(t, engine)
    const [old, next] = [hexKey(), hexKey()]
    let service = await serve(withKey(old))
    onClose(() => service.close())
    const { check, checkSignature } = await usedService(t, service)
    await check(service)
    const before = await sealedTexts(service.db)
    assert.deepEqual(
      [...before.keys()].sort(),
      [...new Set(sealedColumns.map((one) => `${one.table}.${one.column}`))].sort(),
    )
    const { stop, again } = continuously(t, () => check(service))
    // While the command waits, the service loads the changed keys and completes the requests that began earlier.
    const wait = async () => {
      await loadChangedKeys(service.reloadKeys)
      await again()
    }
    const { outcome, steps } = await rotate({ config: withKey(old), next, wait })
    await checkSignature(service)
    assert.equal(outcome, 'both valid')
    assert.ok((await stop()) > 0)
    assert.deepEqual(steps.filter(({ step }) => step === 'waiting').length, 2)
    const after = await sealedTexts(service.db)
    assert.deepEqual([...after.keys()].sort(), [...before.keys()].sort())
    for (const [place, ids] of after) assert.deepEqual([place, [...ids]], [place, [3]])
    assert.deepEqual(await rotate({ config: withKey(next) }).then((result) => result.outcome), 'finished')
    await service.reloadKeys()
    await check(service)
    await checkSignature(service)
    await service.close()

    await assert.rejects(serve(withKey(old)), refused)
    service = await serve(withKey(next))
    await check(service)
    await checkSignature(service)
    assert.equal((await verifyAudit(service.db, service.sealer)).whole, true)
    const entries = service.db.read.selectFrom('auditEntries').selectAll().where('event', '=', 'master_key.rotated')
    const fingerprints = [old, next].map((key) => fingerprintOf(Buffer.from(key, 'hex')))
    const { target, details } = await entries.executeTakeFirstOrThrow()
    assert.deepEqual([details && JSON.parse(details).from, target], fingerprints)
    const rows = await storedDataKeys(service.db.read)
    assert.deepEqual([...new Set(rows.map(({ fingerprint }) => fingerprint))], [fingerprints[1]])
  })

  it('a process that fails to decrypt a value loads the new data key', async (t) => {
    const { withKey, onClose } = await newPlace(t, engine)
    const config = withKey(hexKey())
    const node = await openStores(config)
    onClose(() => node.db.close())
    await rotate({ config, next: hexKey() })
    const other = await openStores(config)
    onClose(() => other.db.close())
    const sealed = other.sealer.seal('hunter2', 'a:1')
    assert.throws(() => node.sealer.open(sealed, 'a:1'), { name: 'UnknownDataKey' })
    await eventually('the key is loaded', async () => {
      try {
        return node.sealer.open(sealed, 'a:1') === 'hunter2'
      } catch {
        return false
      }
    })
  })
}

const ownerOf = (n: number) => ({ clientId: `cli_${n}`, subject: `cli_${n}`, scopes: new Set<string>() })

/** Stores webhooks with secrets and headers; returns their secrets by id. */
async function addWebhooks({ db, sealer }: Pick<Stores, 'db' | 'sealer'>, count: number): Promise<Map<string, string>> {
  const store = { db, sealer, now: Date.now, random: (size: number) => randomBytes(size) }
  const secrets = new Map<string, string>()
  for (let from = 0; from < count; from += 100) {
    const made = Array.from({ length: Math.min(100, count - from) }, (_, n) =>
      newRegistration(store, ownerOf(from + n), {
        ...{ event: 'report.completed', callbackUrl: `https://receiver.example/${from + n}` },
        headers: { 'x-token': `t${from + n}` },
      } as never),
    )
    for (const { row, shown } of made) secrets.set(row.id, shown.secret)
    const rows = made.map(({ row }) => row)
    await db.write((tx) => tx.insertInto('webhooks').values(rows).execute())
  }
  return secrets
}

/** Asserts that every webhook's secret can be decrypted. */
async function assertSecrets({ db, sealer }: Stores, secrets: ReadonlyMap<string, string>): Promise<void> {
  const rows = await db.read.selectFrom('webhooks').select(['id', 'secretSealed']).execute()
  assert.equal(rows.length, secrets.size)
  for (const { id, secretSealed } of rows) assert.equal(sealer.open(secretSealed, `webhooks:${id}`), secrets.get(id))
}

class Killed extends Error {}

function resuming(engine: EngineUnderTest): void {
  const kills: [name: string, isKilled: (step: RotationStep, batches: number) => boolean][] = [
    ['the new master key was added', ({ step }) => step === 'added'],
    ['the first wait', ({ step }) => step === 'waiting'],
    ['the new data key was activated', ({ step }) => step === 'activated'],
    ['the first batch', (_, batches) => batches === 1],
    ['the second batch', (_, batches) => batches === 2],
    ['master.key was replaced', ({ step }) => step === 'replaced'],
  ]
  it('continues after an interruption at any step', async (t) => {
    const { folder, withKey } = await newPlace(t, engine)
    const file = join(folder, 'current')
    writeFileSync(file, hexKey())
    const current = () => withKey(readFileSync(file, 'utf8'))
    const stores = await openStores(current())
    const secrets = await addWebhooks(stores, 250)
    await stores.db.close()
    for (const [name, isKilled] of kills) {
      const next = hexKey()
      const replaceKey = () => writeFileSync(file, next)
      let batches = 0
      const onStep = (step: RotationStep) => {
        if (step.step === 'encrypted') batches += 1
        if (isKilled(step, batches)) throw new Killed(name)
      }
      await assert.rejects(rotate({ config: current(), next, replaceKey, onStep }), Killed)
      const interrupted = await openStores(current())
      await assertSecrets(interrupted, secrets).finally(() => interrupted.db.close())
      assert.equal((await rotate({ config: current(), next, replaceKey })).outcome, 'finished', name)
      const done = await openStores(withKey(next))
      await assertSecrets(done, secrets)
      const rows = await storedDataKeys(done.db.read)
      await done.db.close()
      // Three data keys: the digest key, the key that this rotation replaced, and its successor, all under one master key.
      assert.deepEqual([rows.length, new Set(rows.map(({ fingerprint }) => fingerprint)).size], [3, 1], name)
    }
    const { outcome } = await rotate({ config: current() })
    assert.equal(outcome, 'idle')
  })

  it('exit code 2 if the new key differs from that of the unfinished rotation, unless --start-over is given', async (t) => {
    const { withKey, onClose } = await newPlace(t, engine)
    const [old, lost, next] = [hexKey(), hexKey(), hexKey()]
    const config = withKey(old)
    const stores = await openStores(config)
    const secrets = await addWebhooks(stores, 3)
    await stores.db.close()
    assert.equal((await rotate({ config, next: lost })).outcome, 'both valid')
    const inProgress = { exitCode: 2, message: /is in progress. Set PLINTH_NEW_MASTER_KEY .* use --start-over/ }
    await assert.rejects(rotate({ config, next }), inProgress)
    await assert.rejects(rotate({ config }), inProgress)
    assert.equal((await rotate({ config, next, startOver: true })).outcome, 'both valid')
    await assert.rejects(openStores(withKey(lost)), refused)
    let replaced = 0
    const notices = {
      onMasterKeyReplaced: () => {
        replaced += 1
      },
    }
    const running = await openStoresIn(config, config.storage.dataDir, { migrating: { tables: [] } }, notices)
    onClose(() => running.db.close())
    assert.equal((await rotate({ config: withKey(next) })).outcome, 'finished')
    await assert.rejects(openStores(config), refused)
    const done = await openStores(withKey(next))
    await assertSecrets(done, secrets).finally(() => done.db.close())
    // A process with the old key keeps the data keys that it has loaded.
    for (let count = 0; count < 2; count++) await running.reloadKeys()
    assert.equal(replaced, 1)
    await assertSecrets(running, secrets)
  })
}

function bounded(engine: EngineUnderTest): void {
  it('re-encrypts 10,000 values in batches of at most 200, and loses no concurrent change', async (t) => {
    const { withKey, onClose } = await newPlace(t, engine)
    const config = withKey(hexKey())
    const node = await openStores(config)
    onClose(() => node.db.close())
    const secrets = await addWebhooks(node, 5_000)
    const ids = [...secrets.keys()]
    let changed = 0
    const { stop } = continuously(t, async () => {
      const id = ids[(changed * 97) % ids.length] as string
      const secret = `whsec_${randomBytes(24).toString('base64')}`
      changed += 1
      const secretSealed = node.sealer.seal(secret, `webhooks:${id}`)
      await node.db.write((tx) => tx.updateTable('webhooks').set({ secretSealed }).where('id', '=', id).execute())
      secrets.set(id, secret)
      // Let the timers of this process run between two changes.
      await setImmediate()
    })
    const next = hexKey()
    const { outcome, steps } = await rotate({ config, next, wait: () => loadChangedKeys(node.reloadKeys) })
    assert.ok((await stop()) > 0)
    assert.equal(outcome, 'both valid')
    const batches = steps.filter((step) => step.step === 'encrypted')
    assert.ok(batches.every(({ rows }) => rows <= 200))
    assert.ok(batches.reduce((sum, { rows }) => sum + rows, 0) >= 9_000)
    assert.ok(batches.length >= 50)
    assert.equal((await rotate({ config: withKey(next) })).outcome, 'finished')
    const done = await openStores(withKey(next))
    await assertSecrets(done, secrets).finally(() => done.db.close())
    for (const [place, ids] of await sealedTexts(node.db)) assert.deepEqual([place, [...ids]], [place, [3]])
  })
}

forEachEngine((engine) => {
  describe('plinth keys rotate-master (S-18)', () => {
    serving(engine)
    resuming(engine)
    bounded(engine)
  })
})

describe('a backup taken before, during or after a rotation', () => {
  it('is restored with the master key that it contains', async (t) => {
    const { folder, remove } = newFolder()
    const onClose = closersOf(t)
    onClose(remove)
    const env = { PLINTH_PORT: String(await freePort()) }
    const config = configIn(join(folder, 'one'), env)
    const service = await serve(config)
    onClose(() => service.close())
    const { check } = await usedService(t, service)
    const [before, during, after] = ['before', 'during', 'after'].map((name) => join(folder, `${name}.backup`))
    await backUp(placeIn(config), before as string)
    const next = hexKey()
    const keyFile = join(config.storage.dataDir, 'master.key')
    const replaceKey = () => writeFileSync(keyFile, Buffer.from(next, 'hex').toString('base64'))
    const rotating = { config, next, wait: () => service.reloadKeys() }
    await rotate(rotating)
    await backUp(placeIn(config), during as string)
    await rotate({ ...rotating, replaceKey })
    await service.reloadKeys()
    await check(service)
    await backUp(placeIn(config), after as string)
    const outdated = { ...placeIn(config), masterKey: hexKey() }
    await assert.rejects(backUp(outdated, join(folder, 'outdated.backup')), {
      ...{ name: 'BackupRefused', message: /^The master key of this process does not open the database/ },
    })
    await service.close()
    for (const file of [before, during, after] as string[]) {
      const moved = configIn(file.replace('.backup', ''), env)
      await restoreTo(placeIn(moved), file)
      const restored = await serve(moved)
      await check(restored).finally(() => restored.close())
    }
  })
})

describe('the command plinth keys rotate-master', () => {
  let place: { folder: string; remove: () => void }
  let command: ReturnType<typeof commandRunner>
  before(() => {
    place = newFolder()
    command = commandRunner({})
  })
  after(() => {
    command.close()
    place.remove()
  })
  const run = async (name: string, args: string[], env: Record<string, string> = {}) => {
    const { code, stdout, stderr } = await command.run(args, '', { PLINTH_DATA_DIR: join(place.folder, name), ...env })
    return { code, text: stdout + stderr }
  }
  const rotating = ['keys', 'rotate-master', '--offline']
  const creating = ['clients', 'create', '--name', 'Partner', '--scope', 'users:read']

  it('replaces master.key, and the old key is refused with exit code 2', async () => {
    const file = join(place.folder, 'file', 'master.key')
    assert.equal((await run('file', creating)).code, 0)
    const old = readFileSync(file, 'utf8')
    const { code, text } = await run('file', rotating)
    assert.deepEqual([code, text.split('\n').at(-2)], [0, 'The rotation is complete'])
    assert.match(text, /^The new master key is valid \(fingerprint \S{16}\); the old one still is\n/)
    assert.doesNotMatch(text, /Waiting/)
    assert.notEqual(readFileSync(file, 'utf8'), old)
    assert.deepEqual([statSync(file).mode & 0o777, existsSync(`${file}.next`)], [0o600, false])
    assert.equal((await run('file', ['audit', 'verify'])).code, 0)
    const doctor = await run('file', ['doctor', '--json'])
    const { checks } = JSON.parse(doctor.text)
    const fits = checks.find(({ id }: { id: string }) => id === 'keys.master-fits')
    assert.deepEqual(
      [fits.status, checks.find(({ id }: { id: string }) => id === 'audit.chain').status],
      ['pass', 'pass'],
    )
    const outdated = await run('file', ['clients', 'list'], {
      PLINTH_MASTER_KEY: Buffer.from(old, 'base64').toString('hex'),
    })
    assert.deepEqual(
      [outdated.code, outdated.text],
      [2, 'plinth: data_keys cannot be decrypted: PLINTH_MASTER_KEY is not the master key that encrypted it\n'],
    )
  })

  it('keeps the keys in PLINTH_MASTER_KEY and PLINTH_NEW_MASTER_KEY valid until it runs with only the new one', async () => {
    const [old, next] = [{ PLINTH_MASTER_KEY: hexKey() }, { PLINTH_MASTER_KEY: hexKey() }]
    assert.equal((await run('settings', creating, old)).code, 0)
    const nothing = await run('settings', rotating, old)
    assert.deepEqual([nothing.code, nothing.text.split(':')[0]], [0, 'Nothing to do'])
    const begun = await run('settings', rotating, { ...old, PLINTH_NEW_MASTER_KEY: next.PLINTH_MASTER_KEY })
    assert.deepEqual([begun.code, /Both master keys are valid/.test(begun.text)], [0, true])
    for (const env of [old, next]) assert.equal((await run('settings', ['clients', 'list'], env)).code, 0)
    const ended = await run('settings', rotating, next)
    assert.match(ended.text, /^The old master key is not valid any more/)
    assert.equal((await run('settings', ['clients', 'list'], old)).code, 2)
    assert.equal((await run('settings', ['clients', 'list'], next)).code, 0)
    assert.match((await run('settings', rotating, next)).text, /^Nothing to do: no rotation is in progress/)
  })

  it('exit code 2 with --offline while a node uses the database, and for a key that is not random', async () => {
    assert.equal((await run('served', creating)).code, 0)
    const unlock = lockSqlite(`file:${join(place.folder, 'served', 'plinth.db')}`, Date.now)
    const served = await run('served', rotating).finally(() => unlock?.())
    assert.deepEqual([served.code, /is used by process \d+/.test(served.text)], [2, true])
    const weak = await run('served', rotating, { PLINTH_NEW_MASTER_KEY: 'ab'.repeat(32) })
    assert.deepEqual(
      [weak.code, weak.text],
      [2, 'plinth: PLINTH_NEW_MASTER_KEY is not random: generate one with openssl rand -hex 32\n'],
    )
    assert.equal(existsSync(join(place.folder, 'served', 'master.key.next')), false)
  })

  it('continues with the key in master.key.next', async () => {
    assert.equal((await run('next', creating)).code, 0)
    const folder = join(place.folder, 'next')
    const next = randomBytes(32)
    writeFileSync(join(folder, 'master.key.next'), next.toString('base64'), { mode: 0o600 })
    await rotate({ config: configIn('', { PLINTH_DATA_DIR: folder }), nextKey: () => next })
    const other = await run('next', rotating, { PLINTH_NEW_MASTER_KEY: hexKey() })
    assert.match(other.text, /contains a key other than PLINTH_NEW_MASTER_KEY: unset PLINTH_NEW_MASTER_KEY\n$/)
    assert.equal((await run('next', rotating)).code, 0)
    assert.equal(readFileSync(join(folder, 'master.key'), 'utf8'), next.toString('base64'))
  })
})
