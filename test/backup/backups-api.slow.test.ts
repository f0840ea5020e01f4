import assert from 'node:assert/strict'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Updateable } from 'kysely'
import type { BackupsTable } from '../../src/storage/tables/tasks.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine, onSqlite } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { backUp, configIn, newFolder, passphrase, placeIn, verify } from './support.ts'

type Service = ReturnType<typeof appOn>

/** Returns functions that send requests with the scopes `admin` and `audit:read`. */
const callsOn = (service: Service) => {
  const call = (method: 'GET' | 'POST' | 'HEAD', url: string, headers: Record<string, string> = {}) =>
    service.send({ method, url, headers, scopes: 'admin audit:read' })
  const read = async (id: string) => (await call('GET', `/api/backups/${id}`)).json()
  return {
    call,
    read,
    /** Requests a backup, and waits until it has completed or failed. */
    make: async () => {
      const answer = await call('POST', '/api/backups')
      assert.equal(answer.statusCode, 202, answer.body)
      const { id } = answer.json()
      return eventually('backup', async () => {
        const backup = await read(id)
        return ['completed', 'failed'].includes(backup.status) && backup
      })
    },
    verified: async (id: string) => {
      const answer = await call('POST', `/api/backups/${id}/verify`)
      assert.deepEqual([answer.statusCode, answer.json().verification?.status], [202, 'running'], answer.body)
      return eventually('verification', async () => {
        const { verification } = await read(id)
        return verification.status !== 'running' && verification
      })
    },
    /** Changes the stored rows of all backups. */
    change: (values: Updateable<BackupsTable>) =>
      service.db.write((tx) => tx.updateTable('backups').set(values).execute()),
    pathOf: ({ location, file }: { location: string; file: string }) =>
      `${fileURLToPath(location.replace('file:', 'file://'))}/${file}`,
  }
}

forEachEngine((engine) => {
  describe('/api/backups', () => {
    const service = appOn(engine, { env: { PLINTH_BACKUP: '0 3 * * *', PLINTH_BACKUP_PASSPHRASE: passphrase } })
    const { call, read, make, verified, change, pathOf } = callsOn(service)

    it('202 for a requested backup, which can then be read, verified and downloaded', async () => {
      assert.deepEqual((await call('GET', '/api/backups')).json(), [])
      const answer = await call('POST', '/api/backups')
      const { id } = answer.json()
      assert.deepEqual([answer.statusCode, answer.headers.location], [202, `/api/backups/${id}`])
      assert.match(id, /^bkp_20260301T120000500Z$/)
      const { status, kind, requestedBy } = answer.json()
      assert.deepEqual([status, kind, requestedBy], ['pending', 'requested', 'cli_test'])
      const backup = await eventually('backup', async () => {
        const found = await read(id)
        return found.status === 'completed' && found
      })
      const { file, availability, encrypted, missingResults, node } = backup
      assert.match(file, /^plinth-requested-20260301T120000Z\.backup$/)
      assert.deepEqual([availability, encrypted, missingResults], ['here', true, 0])
      assert.equal(node, `${hostname()} ${process.pid}`)
      const stored = await verify(pathOf(backup))
      assert.deepEqual([stored.sizeBytes, stored.isEncrypted], [backup.sizeBytes, true])
      assert.deepEqual((await call('GET', '/api/backups?limit=1')).json(), [backup])

      const { status: outcome, error, startedAt, finishedAt } = await verified(id)
      assert.deepEqual([outcome, error, startedAt, finishedAt], ['passed', undefined, ...Array(2).fill(startedAt)])

      const download = await call('GET', `/api/backups/${id}/download`)
      assert.deepEqual([download.statusCode, download.headers['cache-control']], [200, 'no-store'])
      assert.equal(download.headers['content-disposition'], `attachment; filename="${file}"`)
      assert.equal(download.headers['repr-digest'], `sha-256=:${backup.sha256}:`)
      assert.ok(download.rawPayload.equals(readFileSync(pathOf(backup))))
      const part = await call('GET', `/api/backups/${id}/download`, { range: 'bytes=0-20' })
      assert.deepEqual([part.statusCode, part.body], [206, 'age-encryption.org/v1'])
      const head = await call('HEAD', `/api/backups/${id}/download`)
      assert.deepEqual([head.statusCode, head.headers['content-length']], [200, String(backup.sizeBytes)])

      const events = ['backup.downloaded', 'backup.requested']
      const entries = await Promise.all(events.map((event) => call('GET', `/api/audit?event=${event}`)))
      assert.deepEqual(
        entries.map((entry) => entry.json().map(({ target }: { target: string }) => target)),
        [[id, id], [id]],
      )
    })

    it('409 for a POST while a backup is pending, 202 with the first response for a repeated Idempotency-Key', async () => {
      await service.db.write((tx) => tx.deleteFrom('backups').execute())
      const key = { 'idempotency-key': 'one' }
      const first = await call('POST', '/api/backups', key)
      const again = await call('POST', '/api/backups', key)
      assert.deepEqual(
        [again.statusCode, again.json(), again.headers['idempotent-replayed']],
        [202, first.json(), 'true'],
      )
      const other = await call('POST', '/api/backups')
      assert.deepEqual([other.statusCode, other.json().errorCode], [409, 'BACKUP_IN_PROGRESS'])
      const { id } = first.json()
      const early = await call('GET', `/api/backups/${id}/download`)
      assert.deepEqual([early.statusCode, early.json().detail], [409, 'The backup is not completed yet'])
      await eventually('backup', async () => (await read(id)).status === 'completed')
    })

    it('verifying a damaged file fails with an error that says what is wrong', async () => {
      await service.db.write((tx) => tx.deleteFrom('backups').execute())
      const backup = await make()
      const path = pathOf(backup)
      const bytes = readFileSync(path)
      const at = bytes.length - 40
      bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
      writeFileSync(path, bytes)
      const { status, error } = await verified(backup.id)
      assert.equal(status, 'failed')
      assert.match(error, /a block cannot be decrypted: the file is incomplete or was altered/)
    })

    it('download and verify: 404 if the file was removed; 409 with the node and the folder if it is on another node', async () => {
      await service.db.write((tx) => tx.deleteFrom('backups').execute())
      const backup = await make()
      const path = pathOf(backup)
      const bothRefused = async (status: number, detail: RegExp) => {
        for (const [method, action] of [
          ['GET', 'download'],
          ['POST', 'verify'],
        ] as const) {
          const answer = await call(method, `/api/backups/${backup.id}/${action}`)
          assert.equal(answer.statusCode, status, answer.body)
          assert.match(answer.json().detail, detail)
        }
      }
      renameSync(path, `${path}.moved`)
      assert.equal((await read(backup.id)).availability, 'removed')
      await bothRefused(404, /^The file plinth-requested-\S+ is no longer in file:\S+$/)
      await change({ node: 'node-b 77' })
      assert.equal((await read(backup.id)).availability, 'elsewhere')
      await bothRefused(409, /^plinth-requested-\S+ is in file:\S+ on node-b 77, which this node \(\S+\) cannot read$/)
      rmSync(`${path}.moved`)
    })

    it('409 for downloading an unencrypted backup, and for verifying a failed one (T-OPS-05)', async () => {
      await service.db.write((tx) => tx.deleteFrom('backups').execute())
      const backup = await make()
      await change({ encrypted: 0 })
      const answer = await call('GET', `/api/backups/${backup.id}/download`)
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [409, 'BACKUP_NOT_ENCRYPTED'])
      assert.match(answer.json().detail, /set PLINTH_BACKUP_PASSPHRASE_FILE/)
      await change({ status: 'failed', name: null, error: 'no space left' })
      const failed = await read(backup.id)
      assert.deepEqual([failed.status, failed.error, failed.availability], ['failed', 'no space left', undefined])
      const refused = await call('POST', `/api/backups/${backup.id}/verify`)
      assert.deepEqual([refused.statusCode, refused.json().errorCode], [409, 'BACKUP_UNAVAILABLE'])
    })

    it('shows a requested backup as failed if no worker has begun it within five minutes', async () => {
      await service.db.write((tx) => tx.deleteFrom('backups').execute())
      const { id } = await make()
      const requestedAt = new Date(service.clock.now).toISOString()
      const untouched = {
        status: 'running',
        attempts: 0,
        leaseUntil: requestedAt,
        finishedAt: null,
        name: null,
      } as const
      await change(untouched)
      assert.equal((await read(id)).status, 'pending')
      service.clock.now += 5 * 60_000
      const { status, error, finishedAt, node } = await read(id)
      assert.deepEqual(
        [status, error, finishedAt, node],
        ['failed', 'No process with the role worker made it', new Date(service.clock.now).toISOString(), undefined],
      )
      assert.equal((await call('GET', '/api/backups')).json()[0].status, 'failed')
      assert.equal((await make()).status, 'completed')
    })

    it('409 for verifying a backup that is already being verified; shows an error if the verifying process has exited', async () => {
      await service.db.write((tx) => tx.deleteFrom('backups').execute())
      const { id } = await make()
      const lease = new Date(service.clock.now + 1).toISOString()
      const began = { verifyNode: 'node-b 77', verifyStartedAt: lease, verifyLeaseUntil: lease }
      await change({ verifyStatus: 'running', ...began })
      const second = await call('POST', `/api/backups/${id}/verify`)
      assert.deepEqual([second.statusCode, second.json().errorCode], [409, 'CHECK_IN_PROGRESS'])
      service.clock.now += 1
      const { status, error } = (await read(id)).verification
      assert.deepEqual([status, error], ['error', 'The process that checked it has ended'])
      assert.equal((await verified(id)).status, 'passed')
    })

    it('409 for one of two simultaneous requests to verify different backups', async () => {
      await service.db.write((tx) => tx.deleteFrom('backups').execute())
      const ids: string[] = []
      for (let made = 0; made < 2; made++) {
        service.clock.now += 1_000
        ids.push((await make()).id)
      }
      const check = (id: string) => call('POST', `/api/backups/${id}/verify`)
      const [one, other] = await Promise.all(ids.map(check))
      assert.deepEqual([one?.statusCode, other?.statusCode].sort(), [202, 409])
      const refused = one?.statusCode === 409 ? 0 : 1
      const problem = [one, other][refused]?.json()
      assert.deepEqual(
        [problem.errorCode, problem.detail],
        ['CHECK_IN_PROGRESS', 'This node is checking another backup'],
      )
      await eventually(
        'verification',
        async () => (await read(ids[1 - refused] ?? '')).verification.status === 'passed',
      )
      assert.equal((await verified(ids[refused] ?? '')).status, 'passed')
    })

    it('verifies a backup after the verification of another one was refused with 409', async () => {
      await service.db.write((tx) => tx.deleteFrom('backups').execute())
      const { id } = await make()
      const lease = new Date(service.clock.now + 1).toISOString()
      await change({ verifyStatus: 'running', verifyNode: 'b', verifyStartedAt: lease, verifyLeaseUntil: lease })
      assert.equal((await call('POST', `/api/backups/${id}/verify`)).statusCode, 409)
      service.clock.now += 1_000
      assert.equal((await verified((await make()).id)).status, 'passed')
    })

    it('404 for an unknown id, 403 without the admin scope, 401 without a token', async () => {
      for (const id of ['bkp_20200101T000000000Z', 'nothing', 'bkp_20260230T000000000Z']) {
        assert.equal((await call('GET', `/api/backups/${id}`)).statusCode, 404)
        assert.equal((await call('POST', `/api/backups/${id}/verify`)).statusCode, 404)
      }
      for (const method of ['GET', 'POST'] as const) {
        assert.equal((await service.send({ method, url: '/api/backups' })).statusCode, 403)
        assert.equal((await service.send({ method, url: '/api/backups', scopes: null })).statusCode, 401)
      }
    })
  })
})

onSqlite((engine) => {
  describe('POST /api/backups without a configured location', () => {
    const service = appOn(engine)

    it('409 naming the settings that enable backups', async () => {
      const answer = await callsOn(service).call('POST', '/api/backups')
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [409, 'BACKUPS_NOT_CONFIGURED'])
      assert.match(
        answer.json().detail,
        /set PLINTH_BACKUP to a schedule, such as '0 3 \* \* \*', or PLINTH_BACKUP_URL/,
      )
    })
  })

  describe('POST /api/backups/{id}/verify without the passphrase', () => {
    const { folder, remove } = newFolder()
    const service = appOn(engine, { env: { PLINTH_BACKUP_URL: `file:${folder}` } })
    const { call, verified } = callsOn(service)
    after(remove)

    it('ends with an error that names the missing setting', async () => {
      const name = 'plinth-20260301T120000Z.backup'
      const place = { ...placeIn(configIn(folder)), databaseUrl: service.db.url }
      const { sizeBytes } = await backUp(place, join(folder, name), { passphrase })
      const at = new Date(service.clock.now).toISOString()
      const run = { scheduledFor: at, startedAt: at, leaseUntil: at, attempts: 1, node: `${hostname()} 1` }
      await service.db.write((tx) =>
        tx
          .insertInto('backups')
          .values({ ...run, status: 'completed', name, sizeBytes })
          .execute(),
      )
      const [{ id, kind, availability }] = (await call('GET', '/api/backups')).json()
      assert.deepEqual([kind, availability], ['scheduled', 'here'])
      const { status, error } = await verified(id)
      assert.equal(status, 'error')
      assert.match(error, /^The backup is encrypted: set PLINTH_BACKUP_PASSPHRASE or/)
      service.faults.length = 0
    })
  })
})
