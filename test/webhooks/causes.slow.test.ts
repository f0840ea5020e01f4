import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { type FailureLine, failureLog } from '../../src/webhooks/dispatch/failure-log.ts'
import { type SenderOptions, sender } from '../../src/webhooks/dispatch/http-client.ts'
import type { CallOutcome, RecordedAttempt } from '../../src/webhooks/dispatch/outcome.ts'
import type { Due } from '../../src/webhooks/queue/claim.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, newOwner, outcomes, policy, steps } from '../support/webhooks.ts'

async function listening(t: TestContext, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => {})))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

async function outcomeOf(t: TestContext, url: string, options: Partial<SenderOptions> = {}): Promise<CallOutcome> {
  const client = sender({ policy, timeoutMs: 300, now: Date.now, ...options })
  t.after(() => client.close())
  return client.post({ url, headers: {}, body: Buffer.from('{}') })
}

const both = ({ error, cause }: CallOutcome) => [error, cause]

describe('the cause of a failed call', () => {
  it('is the resolver’s error code for a name that does not resolve', async (t) => {
    for (const code of ['ENOTFOUND', 'EAI_AGAIN']) {
      const lookup = async () => Promise.reject(Object.assign(new Error('no name'), { code }))
      assert.deepEqual(both(await outcomeOf(t, 'http://receiver.test/', { lookup })), ['unreachable', code])
    }
  })

  it('is ECONNREFUSED for a closed port', async (t) => {
    const closed = createServer()
    const port = await listening(t, closed)
    await new Promise((resolve) => closed.close(resolve))
    assert.deepEqual(both(await outcomeOf(t, `http://127.0.0.1:${port}/`)), ['unreachable', 'ECONNREFUSED'])
  })

  it('is CALLBACK_URL_BLOCKED for a blocked address', async (t) => {
    const outcome = await outcomeOf(t, 'http://127.0.0.1:9/', { policy: { allowHttp: true, allowCidrs: [] } })
    assert.deepEqual(both(outcome), ['unreachable', 'CALLBACK_URL_BLOCKED'])
  })

  it('is the TLS error code for an untrusted authority or an expired certificate', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-causes-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const lookup = async () => [{ address: '127.0.0.1' }]
    const yearsAgo = () => Date.now() - 2 * 365 * 86_400_000
    for (const [name, now, code] of [
      ['unknown', Date.now, 'SELF_SIGNED_CERT_IN_CHAIN'],
      ['expired', yearsAgo, 'CERT_HAS_EXPIRED'],
    ] as const) {
      const client = await localCertificates(join(folder, name), ['receiver.test'], now)
      const port = await listening(
        t,
        createSecureServer(client, (_, response) => response.end()),
      )
      const ca = name === 'expired' ? { ca: readFileSync(client.authorityFile, 'utf8') } : {}
      const outcome = await outcomeOf(t, `https://receiver.test:${port}/`, { lookup, ...ca, timeoutMs: 5_000 })
      assert.deepEqual(both(outcome), ['tls', code])
    }
  })

  it('includes the phase in which a call timed out: connecting, or waiting for or reading the response', async (t) => {
    const lookup = () => new Promise<never>(() => {})
    const connecting = await outcomeOf(t, 'http://receiver.test/', { lookup })
    assert.deepEqual(both(connecting), ['unreachable', 'ETIMEDOUT while connecting'])
    const silent = await listening(
      t,
      createServer((socket) => socket.resume()),
    )
    const waiting = await outcomeOf(t, `http://127.0.0.1:${silent}/`)
    assert.deepEqual(both(waiting), ['timeout', 'timeout while waiting for the response'])
    const slow = await listening(
      t,
      createServer((socket) => socket.resume().write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1')),
    )
    const reading = await outcomeOf(t, `http://127.0.0.1:${slow}/`)
    assert.deepEqual(both(reading), ['timeout', 'timeout while reading the response'])
  })
})

describe('the failed-call log', () => {
  const url = 'https://name:secret@user.test:8443/path?secret=1'
  const due = { id: 'dlv_1', webhookId: 'whk_1', lane: 'whk_1', url, attempts: 2 } as Due
  const at = { startedAt: '', due }
  const next = { state: 'pending', nextAttemptAt: '2026-03-01T12:05:00.000Z' } as const
  const of = (cause: string, more: Partial<Due> = {}): RecordedAttempt => ({
    tried: { ...at, due: { ...due, ...more }, outcome: { ...outcomes.failed, error: 'unreachable', cause } },
    ...next,
  })

  function logging() {
    const clock = { now: 1_000_020_000 }
    const lines: FailureLine[] = []
    return { clock, lines, log: failureLog({ now: () => clock.now, warn: (line) => lines.push(line) }) }
  }

  it('names the webhook, delivery, origin, attempt, cause and trace, but no credentials, path or query', () => {
    const { lines, log } = logging()
    const traceId = '0af7651916cd43dd8448eb211c80319c'
    log([of('ECONNREFUSED', { trace: `00-${traceId}-b7ad6b7169203331-01` })])
    const about = { webhookId: 'whk_1', deliveryId: 'dlv_1', origin: 'https://user.test:8443', attempt: 3 }
    const why = { class: 'unreachable', cause: 'ECONNREFUSED', status: 500 }
    assert.deepEqual(lines, [{ ...about, ...why, ...next, unlogged: 0, traceId }])
  })

  it('has a line without an attempt number for a delivery that failed before it was sent, and no line for a success', () => {
    const { lines, log } = logging()
    const unsent = { cause: 'stopped', reason: 'The webhook was paused or disabled' } as const
    const ended = { state: 'failed', nextAttemptAt: null } as const
    log([{ tried: { ...at, outcome: null, unsent }, ...ended }])
    log([{ tried: { ...at, outcome: outcomes.delivered }, state: 'delivered', nextAttemptAt: null }])
    assert.deepEqual(
      lines.map(({ attempt, cause, state }) => [attempt, cause, state]),
      [[undefined, 'stopped', 'failed']],
    )
  })

  it('has at most ten lines per minute per endpoint; the next line contains the number of omitted failures', () => {
    const { clock, lines, log } = logging()
    for (let n = 0; n < 121; n++) {
      log([of('ECONNREFUSED')])
      clock.now += 1_000
    }
    assert.deepEqual(
      lines.map(({ unlogged }) => unlogged),
      [...Array(10).fill(0), 50, ...Array(9).fill(0), 50],
    )
  })

  it('has at most 600 lines per minute, regardless of the number of failing endpoints', () => {
    const { clock, lines, log } = logging()
    for (let n = 0; n < 5_000; n++) log([of('ECONNREFUSED', { lane: `whk_${n}` })])
    assert.equal(lines.length, 600)
    clock.now += 60_000
    log([of('ECONNREFUSED', { lane: 'whk_4000' })])
    assert.equal(lines.length, 601)
    assert.equal(lines.at(-1)?.unlogged, 1)
  })
})

forEachEngine((engine) => {
  describe('failure reporting', () => {
    let db: Database
    const clock = { now: Date.parse('2026-03-01T12:00:00.000Z') }
    const { start, one, fan, queue } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    it('logs the cause of a failed call for the operator, and shows the webhook’s owner only the error class', async (t) => {
      const closed = createServer()
      const port = await listening(t, closed)
      await new Promise((resolve) => closed.close(resolve))
      const client = sender({ policy, timeoutMs: 2_000, now: Date.now })
      t.after(() => client.close())
      const lines: FailureLine[] = []
      const onRecorded = failureLog({ now: () => clock.now, warn: (line) => lines.push(line) })
      const fixture = steps(db, queue)
      const owner = newOwner()
      const { id: webhookId } = await fixture.subscribe(owner, `http://127.0.0.1:${port}/hook`)
      const event = await fixture.emit(owner)
      await fan(batch([{ eventId: event.id }]))
      const node = await start(client.post, { schedule: [0, 60], onRecorded })
      await node.settled()
      const [delivery] = await fixture.deliveries(event.id)
      const deliveryId = delivery?.id ?? ''
      const about = {
        webhookId,
        deliveryId,
        origin: `http://127.0.0.1:${port}`,
        attempt: 1,
        status: undefined,
        traceId: undefined,
      }
      const next = { state: 'pending', nextAttemptAt: delivery?.nextAttemptAt }
      assert.deepEqual(lines, [{ ...about, class: 'unreachable', cause: 'ECONNREFUSED', ...next, unlogged: 0 }])
      assert.deepEqual(
        (await fixture.attempts(deliveryId)).map(({ error }) => error),
        ['unreachable'],
      )
    })

    it('records the reason and logs a line if a delivery fails without a call because its webhook was paused', async () => {
      const lines: FailureLine[] = []
      const onRecorded = failureLog({ now: () => clock.now, warn: (line) => lines.push(line) })
      const fixture = await one(outcomes.delivered, { onRecorded })
      await db.write((tx) =>
        tx.updateTable('webhooks').set({ status: 'paused' }).where('id', '=', fixture.webhookId).execute(),
      )
      await fixture.run()
      const { status, reason, attempts } = await fixture.row()
      assert.deepEqual([status, reason, attempts], ['failed', 'The webhook was paused or disabled', 0])
      assert.deepEqual(
        lines.map(({ deliveryId, cause, attempt, state }) => [deliveryId, cause, attempt, state]),
        [[fixture.id, 'stopped', undefined, 'failed']],
      )
      assert.deepEqual(fixture.sent, [])
    })

    it('reports only once that a webhook was disabled after a 410', async () => {
      const disabled: unknown[] = []
      const fixture = await one(outcomes.gone, { onDisabled: (webhook) => disabled.push(webhook) })
      const other = await fixture.emit(fixture.owner)
      await fan(batch([{ eventId: other.id }]))
      await fixture.run()
      const reason = 'The endpoint responded with 410 Gone'
      assert.deepEqual(disabled, [{ webhookId: fixture.webhookId, reason }])
      assert.equal((await fixture.webhook(fixture.webhookId)).status, 'disabled')
    })
  })
})
