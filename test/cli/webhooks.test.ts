import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { ended, eventually, killAll, newPlace, plinth, type Running, serving } from './support.ts'

describe('plinth webhooks', () => {
  let place: Awaited<ReturnType<typeof newPlace>>
  let service: Running
  const client = { PLINTH_CLIENT_ID: 'boot', PLINTH_CLIENT_SECRET: 'boot: secret' }
  const calls: { headers: IncomingHttpHeaders; bytes: Buffer }[] = []
  let status = 200
  const target = createServer(async (request, response) => {
    calls.push({ headers: request.headers, bytes: Buffer.concat(await request.toArray()) })
    response.writeHead(status).end('seen')
  })
  let forward: string

  before(async () => {
    place = await newPlace()
    const bootstrap = { PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot: secret' }
    service = await serving(place.dataDir, place.port, { ...place.env, ...bootstrap, PLINTH_WEBHOOK_SCHEDULE: '0' })
    await once(target.listen(0, '127.0.0.1'), 'listening')
    forward = `http://127.0.0.1:${(target.address() as AddressInfo).port}/hook?a=b`
  })
  after(async () => {
    target.close()
    target.closeAllConnections()
    service.child.kill('SIGTERM')
    await ended(service)
    killAll()
    place.remove()
  })

  const start = (...args: string[]) => plinth(['webhooks', ...args], { ...place.env, ...client })
  const run = async (...args: string[]) => ended(start(...args))

  it('`listen` forwards the calls that `trigger` causes, rejects forged ones, and removes its webhook on SIGTERM', async () => {
    const listening = start('listen', '--forward', forward, '--events', 'report.*')
    const [, id] = await eventually(
      'it listens',
      async () => /Listening for report\.\* as (whk_\S{22}), /.exec(listening.stdout()) ?? undefined,
    )
    const listed = JSON.parse((await run('list', '--json')).stdout)
    assert.deepEqual(
      listed.map((one: { id: string; event: string }) => [one.id, one.event]),
      [[id, 'report.*']],
    )
    const triggered = await run('trigger', 'report.completed')
    assert.deepEqual([triggered.code, triggered.stderr], [0, ''])
    assert.match(triggered.stdout, new RegExp(`^report\\.completed  msg_\\S{31}  to ${id}: 200 in \\d+ ms\n$`))
    const [{ headers, bytes }] = calls as [(typeof calls)[0]]
    assert.deepEqual([headers['webhook-event'], headers['content-type']], ['report.completed', 'application/json'])
    assert.match(String(headers['user-agent']), /^Plinth\//)
    // The test has no access to the secret, so it cannot verify the call itself.
    const other = new Webhook('whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA')
    assert.throws(() => other.verify(bytes, headers as never))
    const messageId = String(headers['webhook-id'])
    const signature = other.sign(messageId, new Date(), bytes.toString())
    const timestamp = String(Math.floor(Date.now() / 1_000))
    const sent = { 'webhook-id': messageId, 'webhook-timestamp': timestamp, 'webhook-event': 'report.completed' }
    for (const forged of [{}, { 'webhook-signature': signature }]) {
      const response = await fetch(listed[0].callbackUrl, {
        method: 'POST',
        body: bytes,
        headers: { ...sent, ...forged },
      })
      assert.equal(response.status, 401)
    }
    assert.equal(calls.length, 1)
    await eventually('the rejections are printed', async () => listening.stdout().match(/rejected: /g)?.length === 2)
    assert.equal(JSON.parse(bytes.toString()).status, 'completed')
    assert.match(listening.stdout(), /Z {2}report\.completed {2}msg_\S{31} {2}→ 200 in \d+ ms\n/)

    status = 503
    const failed = await run('trigger', 'report.failed', '--webhook', String(id))
    assert.deepEqual([failed.code, /not delivered to whk_\S+: 503/.test(failed.stderr)], [1, true], failed.stderr)
    await eventually('the failure is printed', async () =>
      /report\.failed {2}msg_\S{31} {2}→ 503/.test(listening.stdout()),
    )

    listening.child.kill('SIGTERM')
    const { code, stdout, stderr } = await ended(listening)
    assert.deepEqual([code, stderr], [0, ''])
    assert.ok(stdout.endsWith(`Removed ${id}\n`), stdout)
  })

  it('exit code 1 and the reason for an unknown event type, or if no active webhook subscribes to the event', async () => {
    const nobodyHears = [
      ['trigger', 'report.completed'],
      /None of your active webhooks subscribes to report\.completed/,
    ] as const
    for (const [args, message] of [
      [
        ['listen', '--events', 'report.begun'],
        /422: Some fields break a rule \(event must be one of report\.completed/,
      ],
      // The previous test has already removed its webhook.
      nobodyHears,
    ] as const) {
      const { code, stderr } = await run(...args)
      assert.equal(code, 1, stderr)
      assert.match(stderr, message)
    }
  })
})
