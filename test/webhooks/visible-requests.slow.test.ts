import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { definition, peopleOn, scopes } from '../resources/access/tenants.ts'
import { token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { hooksOn, type Receiver } from '../support/hooks.ts'
import { eventually } from '../support/service.ts'

type Json = ReturnType<typeof JSON.parse>

forEachEngine((engine) => {
  describe('GET /api/webhooks/{id}/deliveries/{deliveryId}', () => {
    const service = hooksOn(engine, [0], definition)
    let people: Awaited<ReturnType<typeof peopleOn>>
    let target: Receiver
    let webhook: string
    before(async () => {
      people = await peopleOn(service.db, Date.now())
      target = await service.receiver()
      target.status = () => 500
      const body = { event: '*', callbackUrl: target.url }
      const created = await send(people.tokens.owner, 'POST', '/api/webhooks', body)
      webhook = created.id
    })

    const send = async (bearer: string, method: 'GET' | 'POST', url: string, payload?: object): Promise<Json> => {
      const response = await service.send({ method, url, token: bearer, ...(payload && { payload }) })
      assert.ok(response.statusCode < 300, response.body)
      return response.json()
    }
    /** Waits until a delivery of an event type has failed; returns the path of the newest one. */
    const failedDelivery = async (event: string): Promise<string> => {
      const list = `/api/webhooks/${webhook}/deliveries`
      const [found] = await eventually('the delivery has failed', async () => {
        const deliveries = await send(people.tokens.owner, 'GET', `${list}?event=${event}&status=failed`)
        return deliveries.length > 0 && deliveries
      })
      return `${list}/${found.id}`
    }
    const isShown = async (bearer: string, path: string): Promise<[request: boolean, response: boolean]> => {
      const { request, attempts } = await send(bearer, 'GET', path)
      return [request !== undefined, attempts[0].responseStart !== undefined]
    }
    const admin = (...more: string[]) =>
      token(['webhooks:read', 'webhooks:write', 'admin', ...more].join(' '), 'cli_root')
    const hidden = [false, false]

    it('200 with the stored request and the response headers for the owner', async () => {
      const note = await send(people.tokens.owner, 'POST', '/notes', { tenant: 'north', text: 'a note' })
      const { request, attempts, eventId } = await send(
        people.tokens.owner,
        'GET',
        await failedDelivery('note.created'),
      )
      const [call] = target.calls
      assert.deepEqual([request.method, request.url, request.body], ['POST', target.url, String(call?.bytes)])
      assert.deepEqual(JSON.parse(request.body), note)
      const headers = { 'content-type': 'application/json', 'webhook-id': eventId, 'webhook-event': 'note.created' }
      assert.deepEqual(request.headers, headers)
      for (const [name, value] of Object.entries(headers)) assert.equal(call?.headers[name], value)
      const [{ statusCode, responseStart, responseHeaders }] = attempts
      assert.deepEqual([statusCode, responseStart, responseHeaders.connection], [500, '', 'keep-alive'])
    })

    it('200 without request and response for an administrator who may not read the row', async () => {
      await send(people.tokens.owner, 'POST', '/notes', { tenant: 'north', text: 'a note' })
      const path = await failedDelivery('note.created')
      assert.deepEqual(await isShown(admin('notes:read'), path), hidden)
      const failed = `/api/webhooks/${webhook}/deliveries?event=note.created&status=failed`
      const [listed] = await send(admin('notes:read'), 'GET', failed)
      assert.deepEqual([listed.attempts.length, listed.attempts[0].responseStart], [1, undefined])
      const redelivered = await send(admin(), 'POST', `${path}/redeliver`)
      assert.deepEqual(
        redelivered.attempts.map(({ responseStart }: Json) => responseStart),
        [undefined],
      )
    })

    it('200 with request and response for an administrator who may read the row and has its read scope', async () => {
      await send(people.tokens.owner, 'POST', '/notes', { tenant: 'north', text: 'a note' })
      const path = await failedDelivery('note.created')
      const asNorth = (granted: string) => token(`webhooks:read admin ${granted}`, 'crm_north')
      assert.deepEqual(await isShown(asNorth('notes:read'), path), [true, true])
      assert.deepEqual(await isShown(asNorth(''), path), hidden)
    })

    it('200 without the request for an owner who lost access to the row, or whose token lacks the read scope', async () => {
      await send(people.tokens.owner, 'POST', '/notes', { tenant: 'north', text: 'a note' })
      const path = await failedDelivery('note.created')
      const narrow = token('webhooks:read', 'cli_app', String(people.ids.owner))
      assert.deepEqual(await isShown(narrow, path), [false, true])
      await people.move('owner', 'south')
      service.ahead.ms += 5_000
      assert.deepEqual(await isShown(people.tokens.owner, path), [false, true])
      await people.move('owner', 'north')
      service.ahead.ms += 5_000
      assert.deepEqual(await isShown(people.tokens.owner, path), [true, true])
    })

    it('200 with the request of a report event for its owner only, and of a test for administrators too', async () => {
      await send(people.tokens.owner, 'POST', '/api/reports', { reportType: 'activity', format: 'csv' })
      const report = await failedDelivery('report.completed')
      assert.deepEqual(await isShown(people.tokens.owner, report), [true, true])
      assert.deepEqual(await isShown(admin(...scopes.split(' ')), report), hidden)
      const { id } = await send(admin(), 'POST', `/api/webhooks/${webhook}/test`)
      const test = `/api/webhooks/${webhook}/deliveries/${id}`
      await eventually('the test has ended', async () => (await send(admin(), 'GET', test)).status === 'failed')
      assert.deepEqual(await isShown(admin(), test), [true, true])
    })
  })
})
