import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { type Fault, type FaultProxy, faultProxy } from '../support/fault-proxy.ts'
import { s3Missing, s3Server } from '../support/s3.ts'
import { eventually, type RealService, realService } from '../support/service.ts'

const timeout = 300_000

describe('S3 and network faults (F-S3)', {
  skip: s3Missing || process.env.TEST_S3_URL !== undefined,
}, () => {
  let s3: Awaited<ReturnType<typeof s3Server>>
  let proxy: FaultProxy
  let service: RealService
  before(async () => {
    s3 = await s3Server()
    proxy = await faultProxy(Number(new URL(s3.env.AWS_ENDPOINT_URL as string).port))
    const endpoint = `http://127.0.0.1:${proxy.port}`
    service = await realService({ ...s3.env, AWS_ENDPOINT_URL: endpoint, PLINTH_RESULTS_URL: s3.url })
    await service.start()
    for (let n = 0; n < 50; n++) {
      const answer = await service.call('POST', '/books', { body: { title: `Book ${n}`, author: 'A' } })
      assert.equal(answer.status, 201, answer.text)
    }
  })
  after(async () => {
    await service?.remove()
    await proxy?.close()
    s3?.stop()
  })

  const request = async (): Promise<string> => {
    const answer = await service.call('POST', '/api/reports', { body: { reportType: 'books', format: 'csv' } })
    assert.equal(answer.status, 202, answer.text)
    return answer.json().taskId
  }
  const statusOf = async (id: string) => (await service.call('GET', `/api/reports/${id}/status`)).json()
  const completes = (id: string) =>
    eventually(
      `${id} completes`,
      async () => {
        const task = await statusOf(id)
        assert.notEqual(task.status, 'failed', JSON.stringify(task))
        return task.status === 'completed'
      },
      90_000,
    )
  const failures = () => service.output().split('"msg":"job failed"').length - 1
  const downloads = async (id: string) => {
    const file = await service.call('GET', `/api/reports/${id}/download`)
    assert.equal(file.status, 200, file.text)
    assert.equal(file.headers['repr-digest'], `sha-256=:${createHash('sha256').update(file.bytes).digest('base64')}:`)
    assert.equal(file.text.trimEnd().split('\r\n').length, 51)
  }

  /**
   * Each fault, and the number of failed attempts to wait for. If an error were not treated as an outage, the report
   * would fail at the third attempt.
   */
  const faults: [string, Fault, number][] = [
    ['refuses connections', { kind: 'refuse' }, 4],
    ['breaks responses in the middle', { kind: 'cut', of: 'reply', bytes: 30 }, 2],
    ['gets truncated uploads', { kind: 'cut', of: 'request', bytes: 1_000 }, 2],
    ['responds at 1 KB/s', { kind: 'slow', bytesPerSecond: 1_024 }, 0],
  ]
  for (const [name, fault, minFailures] of faults) {
    it(`do not cause a report to fail if it is requested while S3 ${name}`, { timeout }, async () => {
      const before = failures()
      proxy.set(fault)
      const id = await request()
      await eventually(`${minFailures} attempts failed`, async () => failures() >= before + minFailures, 90_000)
      if (minFailures === 0) await completes(id)
      assert.notEqual((await statusOf(id)).status, 'failed')
      proxy.set({ kind: 'pass' })
      await completes(id)
      await downloads(id)
    })
  }

  it('503 with Retry-After for a download while S3 refuses connections; 200 with the exact bytes afterwards', {
    timeout,
  }, async () => {
    const id = await request()
    await completes(id)
    proxy.set({ kind: 'refuse' })
    const refused = await service.call('GET', `/api/reports/${id}/download`)
    assert.deepEqual([refused.status, refused.headers['retry-after']], [503, '2'])
    assert.equal((await service.call('GET', '/readyz')).status, 200)
    proxy.set({ kind: 'pass' })
    await downloads(id)
  })
})
