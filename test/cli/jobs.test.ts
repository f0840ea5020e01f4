import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { readConfig } from '../../src/config/config.ts'
import { openStores } from '../../src/stores.ts'
import { addJobRow } from '../oauth/matrix.ts'
import { commandRunner, ended, newPlace, plinth } from './support.ts'

const { env, remove } = await newPlace()
const commands = commandRunner(env)
after(() => {
  commands.close()
  remove()
})

describe('plinth jobs', () => {
  it('lists jobs, newest first, and filters them by name or status; retries and cancels jobs, with audit entries', async () => {
    assert.equal((await ended(plinth(['jobs', 'list'], env))).stdout, 'No jobs\n')
    const { db } = await openStores(readConfig(env))
    const [first, second] = [await addJobRow(db, 1, 'failed'), await addJobRow(db, 2, 'waiting')]
    await db.write((tx) => tx.updateTable('declaredJobs').set({ error: 'Error: no' }).where('id', '=', first).execute())
    const { stdout } = await commands.run(['jobs', 'list'])
    const at = '2026-01-01T00:00:00.000Z'
    assert.deepEqual(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.split(/ {2,}/)),
      [
        ['id', 'job', 'status', 'attempts', 'added', 'due', 'last error'],
        [second, 'remind', 'waiting', '0', at, at],
        [first, 'remind', 'failed', '0', at, 'Error: no'],
      ],
    )
    const failed = JSON.parse((await commands.run(['jobs', 'list', '--status', 'failed', '--json'])).stdout)
    assert.deepEqual([failed.length, failed[0].id, 'input' in failed[0]], [1, first, false])
    assert.equal((await commands.run(['jobs', 'list', '--name', 'other'])).stdout, 'No jobs\n')
    assert.equal((await commands.run(['jobs', 'retry', first])).stdout, `${first}  remind  waiting\n`)
    assert.equal((await commands.run(['jobs', 'cancel', second])).stdout, `${second}  remind  cancelled\n`)
    const entries = await db.read.selectFrom('auditEntries').select(['event', 'target']).orderBy('sequence').execute()
    assert.deepEqual(
      entries.filter(({ event }) => event.startsWith('job.')),
      [
        { event: 'job.retried', target: first },
        { event: 'job.cancelled', target: second },
      ],
    )
    await db.close()
  })

  it('exits with code 1 for an unknown id, and for a job whose status does not allow the change', async () => {
    const unknown = await commands.run(['jobs', 'retry', 'job_0'])
    assert.deepEqual([unknown.code, unknown.stderr], [1, 'plinth: There is no such job\n'])
    const [job] = JSON.parse((await commands.run(['jobs', 'list', '--json', '--status', 'waiting'])).stdout)
    const refused = await commands.run(['jobs', 'retry', job.id])
    const message = 'The job is waiting: only a job that has failed or was cancelled can be retried'
    assert.deepEqual([refused.code, refused.stderr], [1, `plinth: ${message}\n`])
  })
})
