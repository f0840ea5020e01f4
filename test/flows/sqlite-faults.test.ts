import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, it } from 'node:test'
import { ended, killAll, plinth } from '../cli/support.ts'
import { seedProducts } from '../support/kill.ts'
import { eventually, type RealService, realService } from '../support/service.ts'

const pageBytes = 2_048
const timeout = 300_000
const files = ['plinth.db', 'plinth.db-wal']

/** Returns the digests of a database's files. Tests compare them to assert that nothing was written. */
const digests = (folder: string) =>
  files.map((name) => {
    const path = join(folder, name)
    const bytes = statSync(path, { throwIfNoEntry: false }) ? readFileSync(path) : Buffer.alloc(0)
    return createHash('sha256').update(bytes).digest('hex')
  })

/** Returns the page number of a leaf page in the middle of a table's B-tree. */
function leafOf(path: string, table: string): number {
  const db = new DatabaseSync(path, { readOnly: true })
  const root = (db.prepare('select rootpage from sqlite_schema where name = ?').get(table) as { rootpage: number })
    .rootpage
  db.close()
  const bytes = readFileSync(path)
  const at = (root - 1) * pageBytes
  assert.equal(bytes[at], 5, 'the root is an interior page')
  const cells = bytes.readUInt16BE(at + 3)
  // A cell of an interior page begins with the number of its child page.
  const child = (page: number, cell: number) =>
    bytes.readUInt32BE((page - 1) * pageBytes + bytes.readUInt16BE((page - 1) * pageBytes + 12 + 2 * cell))
  let page = child(root, Math.floor(cells / 2))
  while (bytes[(page - 1) * pageBytes] === 5) page = child(page, 0)
  return page
}

/** Overwrites a page of a database file. */
function damage(path: string, page: number): void {
  const file = openSync(path, 'r+')
  writeSync(file, Buffer.alloc(pageBytes, 0xa5), 0, pageBytes, (page - 1) * pageBytes)
  closeSync(file)
}

const product = (service: RealService, name: string) => service.call('POST', '/products', { body: { name, price: 1 } })

describe('a damaged SQLite file', () => {
  let folder: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plinth-damage-'))
    const db = await seedProducts(`file:${join(folder, 'plinth.db')}`, 4_000)
    await db.close()
  })
  after(() => {
    killAll()
    rmSync(folder, { recursive: true, force: true })
  })
  const copy = () => {
    const to = mkdtempSync(join(folder, 'copy-'))
    copyFileSync(join(folder, 'plinth.db'), join(to, 'plinth.db'))
    return to
  }

  for (const command of ['serve', 'migrate']) {
    it(`\`plinth ${command}\` exits with code 2, names the file and the failed check, and writes nothing`, {
      timeout,
    }, async () => {
      const kinds: [RegExp, (path: string) => void][] = [
        [/quick_check\(1\): .*(page|Tree)/i, (path) => damage(path, leafOf(path, 'products'))],
        [/quick_check\(1\): /, (path) => truncateSync(path, statSync(path).size / 2)],
        [/header: it is not a SQLite database/, (path) => damage(path, 1)],
      ]
      for (const [check, harm] of kinds) {
        const dataDir = copy()
        const path = join(dataDir, 'plinth.db')
        harm(path)
        const before = digests(dataDir)
        const env = { PLINTH_DATA_DIR: dataDir, PLINTH_PORT: '0', PLINTH_HTTP_PORT: '0' }
        const { code, stderr } = await ended(plinth([command], env))
        assert.equal(code, 2, stderr)
        assert.ok(stderr.includes(`plinth: ${path} is damaged (`), stderr)
        assert.match(stderr, check)
        assert.deepEqual(digests(dataDir), before)
      }
    })
  }

  for (const threads of ['1', '4'])
    it(`503 for writes and for a read of the damaged row, 200 for other rows; the file stays unchanged (PLINTH_THREADS=${threads})`, {
      timeout,
    }, async () => {
      const dataDir = copy()
      const path = join(dataDir, 'plinth.db')
      const service = await realService({
        DATABASE_URL: `file:${path}`,
        PLINTH_ROLES: 'api,auth',
        PLINTH_THREADS: threads,
      })
      try {
        await service.start()
        await service.token()
        assert.equal((await service.call('GET', '/products/1')).status, 200)
        damage(path, leafOf(path, 'products'))
        // One of these reads needs the damaged page. It fails unless the page is cached.
        const damaged = await eventually('a read meets the damaged page', async () => {
          for (let id = 4_000; id > 1; id -= 5) {
            const { status, headers } = await service.call('GET', `/products/${id}`)
            if (status !== 200) return { id, status, retry: headers['retry-after'] }
          }
          return false
        })
        assert.deepEqual([damaged.status, damaged.retry], [503, '2'])
        const before = digests(dataDir)
        for (let time = 0; time < 3; time++) {
          assert.equal((await service.call('GET', `/products/${damaged.id}`)).status, 503)
          const refused = await product(service, 'never stored')
          assert.deepEqual([refused.status, refused.headers['retry-after']], [503, '2'])
        }
        assert.equal((await service.call('GET', '/products/1')).status, 200)
        const unready = await eventually('it is not ready', async () => {
          const found = await service.call('GET', '/readyz')
          return found.status !== 200 && found
        })
        assert.equal(unready.status, 503)
        assert.equal((await service.call('GET', '/livez')).status, 200)
        await service.kill('SIGTERM')
        // The exit code is 1 if audit entries could not be written.
        assert.ok([0, 1].includes(service.child().exitCode ?? -1))
        const lines = service
          .output()
          .split('\n')
          .filter((line) => line.includes('"msg":"database damaged"'))
        assert.equal(lines.length, 1)
        const { file, err } = JSON.parse(lines[0] as string)
        assert.deepEqual([file, err.message], [path, 'database disk image is malformed'])
        assert.deepEqual(digests(dataDir), before)
        await assert.rejects(service.start(), /ended with 2.*is damaged \(quick_check/s)
        assert.deepEqual(digests(dataDir), before)
      } finally {
        await service.remove()
      }
    })
})

describe('a truncated write-ahead log', () => {
  it('leaves a prefix of the acknowledged writes and a consistent file after a restart', { timeout }, async () => {
    const service = await realService({ PLINTH_ROLES: 'api,auth' })
    const path = join(service.dataDir, 'plinth.db')
    try {
      await service.start()
      const ids: number[] = []
      for (let n = 0; n < 20; n++) ids.push((await product(service, `row ${n}`)).json().id)
      for (const part of [0, 1, 0.7]) {
        const { size } = await killed(service, path)
        // Cuts off the last 1,000 bytes, then nothing (only the kill), then the last 30 % of the log.
        truncateSync(`${path}-wal`, part === 0 ? size - 1_000 : Math.floor(part === 1 ? size : size * part))
        await service.start()
        const found = []
        for (const id of ids) found.push((await service.call('GET', `/products/${id}`)).status)
        const kept = found.filter((status) => status === 200).length
        assert.deepEqual(
          found,
          ids.map((_, at) => (at < kept ? 200 : 404)),
          'a prefix',
        )
        assert.equal(integrityOf(path), 'ok')
        const next = await product(service, 'after')
        assert.equal(next.status, 201)
        ids.splice(kept, ids.length, next.json().id)
      }
    } finally {
      await service.remove()
    }
  })

  async function killed(service: RealService, path: string) {
    await service.kill('SIGKILL')
    return statSync(`${path}-wal`)
  }
  function integrityOf(path: string): unknown {
    const db = new DatabaseSync(path, { readOnly: true })
    const [row] = db.prepare('pragma integrity_check').all()
    db.close()
    return row?.integrity_check
  }
})

/** Returns the reason to skip tests that mount a file system, or false. */
function mountMissing(): string | false {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-mount-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]).status === 0
  if (mounted) spawnSync('umount', [folder])
  rmSync(folder, { recursive: true })
  return mounted ? false : 'this user may not mount file systems'
}

describe('a full disk', { skip: mountMissing() }, () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'plinth-disk-'))
    assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', folder]).status, 0)
  })
  after(() => {
    assert.equal(spawnSync('umount', [folder]).status, 0)
    rmSync(folder, { recursive: true })
  })

  it('503 with Retry-After for writes, 200 for reads; 201 again without a restart once there is space (F-DISK)', {
    timeout,
  }, async () => {
    const service = await realService({
      DATABASE_URL: `file:${join(folder, 'plinth.db')}`,
      PLINTH_RESULTS_URL: `file:${join(folder, 'results')}`,
    })
    const ballast = join(folder, 'ballast')
    try {
      await service.start()
      await product(service, 'before')
      const task = (await service.call('POST', '/api/reports', { body: { reportType: 'books', format: 'csv' } })).json()
        .taskId
      assert.match(task, /^tsk_/)
      spawnSync('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64k'])
      const acknowledged: number[] = []
      const refused = await eventually('a write is refused', async () => {
        const answer = await product(service, 'x'.repeat(200))
        if (answer.status === 201) acknowledged.push(answer.json().id)
        return answer.status !== 201 && answer
      })
      assert.deepEqual([refused.status, refused.headers['retry-after']], [503, '2'])
      for (let time = 0; time < 20; time++) {
        assert.equal((await product(service, 'x'.repeat(200))).status, 503)
        assert.equal((await service.call('GET', '/products/1')).status, 200)
        assert.equal(
          (await service.call('POST', '/api/reports', { body: { reportType: 'books', format: 'csv' } })).status,
          503,
        )
      }
      assert.equal((await service.call('GET', '/livez')).status, 200)
      const process = service.child()
      rmSync(ballast)
      await eventually('a write succeeds', async () => (await product(service, 'after')).status === 201)
      for (const id of acknowledged) assert.equal((await service.call('GET', `/products/${id}`)).status, 200)
      await eventually('the report completes', async () => {
        return (await service.call('GET', `/api/reports/${task}/status`)).json().status === 'completed'
      })
      assert.equal(process.exitCode, null)
    } finally {
      await service.kill('SIGKILL')
      await service.remove()
    }
  })
})
