import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { readConfig } from '../../src/config/config.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { serverCertificates } from '../../src/tls/certificates.ts'
import { ended, killAll, newPlace, plinth, type Running, serving } from './support.ts'

const removals: (() => void)[] = []
after(() => {
  killAll()
  for (const remove of removals) remove()
})

async function place() {
  const created = await newPlace()
  removals.push(created.remove)
  return created
}

/** Returns the permissions of all files and folders in a folder, by name. */
const rightsIn = (folder: string, prefix = ''): Record<string, string> =>
  Object.assign(
    {},
    ...readdirSync(folder, { withFileTypes: true }).map((entry) => {
      const path = join(folder, entry.name)
      const mode = (statSync(path).mode & 0o777).toString(8)
      return { [prefix + entry.name]: mode, ...(entry.isDirectory() && rightsIn(path, `${prefix}${entry.name}/`)) }
    }),
  )

const production = {
  PLINTH_PROFILE: 'production',
  PLINTH_HOST: '127.0.0.1',
  PLINTH_BOOTSTRAP_CLIENT_ID: 'boot',
  PLINTH_BOOTSTRAP_CLIENT_SECRET: 'bd6ef1b8f0ec4f6a8f3b27a5c1d09e74',
}
const stop = async (service: Running) => {
  service.child.kill('SIGTERM')
  assert.equal((await ended(service)).code, 0)
}

/** A sticky folder, like /tmp. */
const sharedFolder = mkdtempSync(join(tmpdir(), 'plinth-shared-'))
chmodSync(sharedFolder, 0o1777)
removals.push(() => rmSync(sharedFolder, { recursive: true }))

/** Paths whose permissions even root cannot change. */
const unchangeable = { file: '/proc/self/status', folder: '/proc/self/task' }

describe('plinth serve', () => {
  it('makes its files private to their owner, including older files and an existing folder', async () => {
    const { dataDir, port, env } = await place()
    // These permissions may remain from an earlier release or a copy.
    const db = await openDatabase(`file:${join(dataDir, 'plinth.db')}`)
    await migrate(db)
    for (const folder of ['results', 'certificates']) mkdirSync(join(dataDir, folder))
    const key = Buffer.alloc(32, 5).toString('base64')
    writeFileSync(join(dataDir, 'master.key'), key)
    for (const name of ['plinth.db', 'plinth.db-wal', 'plinth.db-shm', 'master.key']) {
      chmodSync(join(dataDir, name), 0o664)
    }
    for (const folder of ['.', 'results', 'certificates']) chmodSync(join(dataDir, folder), 0o775)
    const service = await serving(dataDir, port, { ...env, ...production })
    assert.equal(statSync(dataDir).mode & 0o777, 0o700)
    assert.deepEqual(rightsIn(dataDir), {
      certificates: '700',
      'certificates/authority.crt': '600',
      'certificates/authority.key': '600',
      'certificates/server.pem': '600',
      'master.key': '600',
      'plinth.db': '600',
      'plinth.db-shm': '600',
      'plinth.db-wal': '600',
      'plinth.db.lock': '600',
      'plinth.db.pid': '600',
      results: '700',
    })
    await stop(service)
    await db.close()

    for (const name of ['authority.key', 'server.pem']) chmodSync(join(dataDir, 'certificates', name), 0o644)
    const again = await serving(dataDir, port, { ...env, ...production })
    assert.deepEqual(new Set(Object.values(rightsIn(dataDir))), new Set(['600', '700']))
    await stop(again)
  })

  it('makes its files private even if the database and the results are in other folders', async () => {
    const { dataDir, port, env } = await place()
    const elsewhere = mkdtempSync(join(tmpdir(), 'plinth-elsewhere-'))
    removals.push(() => rmSync(elsewhere, { recursive: true }))
    chmodSync(elsewhere, 0o755)
    writeFileSync(join(elsewhere, 'own.db'), '', { mode: 0o644 })
    mkdirSync(join(elsewhere, 'files'), { mode: 0o755 })
    const urls = {
      DATABASE_URL: `file:${join(elsewhere, 'own.db')}`,
      PLINTH_RESULTS_URL: `file:${join(elsewhere, 'files')}`,
    }
    const service = await serving(dataDir, port, { ...env, ...urls })
    const { files, ...database } = rightsIn(elsewhere)
    assert.deepEqual([files, ...new Set(Object.values(database))], ['700', '600'])
    assert.ok('own.db-wal' in database && 'own.db-shm' in database)
    await stop(service)
  })

  const refusals: [what: string, settings: (dataDir: string) => Record<string, string>, named: RegExp][] = [
    [
      'a master key',
      (dataDir) => {
        symlinkSync(unchangeable.file, join(dataDir, 'master.key'))
        return {}
      },
      /\/master\.key is accessible .* \(mode 0444\), .* cannot be changed \(EPERM\): .* chmod 600 \/\S+\/master\.key$/m,
    ],
    ['a database', () => ({ DATABASE_URL: `file:${unchangeable.file}` }), /\/self\/status is accessible .* chmod 600 /],
    ['a data folder', () => ({ PLINTH_DATA_DIR: unchangeable.folder }), /\/self\/task is accessible .* chmod 700 /],
    [
      'a results folder',
      () => ({ PLINTH_RESULTS_URL: `file:${unchangeable.folder}` }),
      /\/proc\/self\/task is accessible .* \(mode 0555\), .* chmod 700 \/proc\/self\/task$/m,
    ],
    [
      'a folder shared by everyone',
      () => ({ PLINTH_RESULTS_URL: `file:${sharedFolder}` }),
      /is accessible .*\(mode 1777\), .* cannot be changed \(it is a folder shared by all users\)/,
    ],
  ]
  for (const [what, settings, named] of refusals) {
    it(`exit code 2 in production if others can read ${what} and the permissions cannot be changed`, async () => {
      const { dataDir, env } = await place()
      const { code, stderr } = await ended(plinth(['serve'], { ...env, ...production, ...settings(dataDir) }))
      assert.deepEqual([code, named.test(stderr)], [2, true], stderr)
    })
  }

  it('leaves a folder shared by everyone unchanged', () => assert.equal(statSync(sharedFolder).mode & 0o7777, 0o1777))
})

describe('PLINTH_TLS_KEY_FILE', () => {
  it('is rejected in production if all users can read it, but accepted if only its owner and group can', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-key-'))
    removals.push(() => rmSync(folder, { recursive: true }))
    const development = readConfig({ PLINTH_DATA_DIR: folder })
    const created = await serverCertificates(development, folder, Date.now)
    assert.ok(created)
    const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
    writeFileSync(cert, created.cert)
    writeFileSync(key, created.key)
    const settings = { PLINTH_DATA_DIR: folder, PLINTH_TLS_CERT_FILE: cert, PLINTH_TLS_KEY_FILE: key }
    const open = (mode: number, profile: string) => {
      chmodSync(key, mode)
      return serverCertificates(readConfig({ ...settings, PLINTH_PROFILE: profile }), folder, Date.now)
    }
    for (const mode of [0o644, 0o604, 0o646]) {
      const refusal = {
        exitCode: 2,
        message: `PLINTH_TLS_KEY_FILE=${key} is accessible to all users: run chmod o= ${key}`,
      }
      await assert.rejects(open(mode, 'production'), refusal)
    }
    for (const mode of [0o600, 0o640, 0o440]) assert.equal((await open(mode, 'production'))?.key, created.key)
    assert.equal((await open(0o644, 'development'))?.key, created.key)
    // The operator's file keeps its permissions.
    assert.equal(statSync(key).mode & 0o777, 0o644)
  })
})
