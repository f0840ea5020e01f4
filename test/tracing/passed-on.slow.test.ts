import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { type Call, hooksOn, isSigned } from '../support/hooks.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const traced = { traceparent: `00-${traceId}-${parentId}-01`, tracestate: 'vendor=value' }
const product = { name: 'Lamp', price: 12 }

forEachEngine((engine) => {
  describe('the trace of a request', () => {
    const service = hooksOn(engine)
    const subscribe = async (event: string, more: object = {}, sent?: string) => {
      const receiver = await service.receiver()
      const payload = { event, callbackUrl: receiver.url, ...more }
      const created = await service.send({
        ...{ method: 'POST', url: '/api/webhooks', payload },
        ...(sent !== undefined && { token: sent }),
      })
      assert.equal(created.statusCode, 201, created.body)
      return { ...receiver, ...(created.json() as { id: string; secret: string }), calls: receiver.calls, receiver }
    }
    const isChild = ({ headers }: Call, state: string | undefined = traced.tracestate) => {
      const [, id, span, flags] = String(headers.traceparent).split('-')
      assert.deepEqual([id, flags, headers.tracestate], [traceId, '01', state])
      assert.match(String(span), /^[0-9a-f]{16}$/)
      assert.notEqual(span, parentId)
    }

    it('is sent in unsigned header fields with the events of a write; other clients get no tracestate', async () => {
      const own = await subscribe('product.created')
      const other = await subscribe('product.created', {}, token('webhooks:read webhooks:write', 'cli_other'))
      const created = await service.send({ method: 'POST', url: '/products', payload: product, headers: traced })
      assert.equal(created.statusCode, 201)
      await Promise.all([own.receiver.called(1), other.receiver.called(1)])
      isChild(own.calls[0] as Call)
      assert.ok(isSigned(own.secret, own.calls[0] as Call))
      const { traceparent: _, ...untraced } = (own.calls[0] as Call).headers
      assert.ok(isSigned(own.secret, { ...(own.calls[0] as Call), headers: untraced }))
      const [call] = other.calls as [Call]
      const [, id] = String(call.headers.traceparent).split('-')
      assert.deepEqual([id, call.headers.tracestate], [traceId, undefined])
    })

    it('is sent with the events of PUT, PATCH and DELETE', async () => {
      const hook = await subscribe('product.*')
      const { id } = (await service.send({ method: 'POST', url: '/products', payload: product })).json()
      await hook.receiver.called(1)
      const url = `/products/${id}`
      await service.send({ method: 'PUT', url, payload: { ...product, price: 2 }, headers: traced })
      const patch = { 'content-type': 'application/merge-patch+json', ...traced }
      await service.send({ method: 'PATCH', url, payload: { price: 3 }, headers: patch })
      await service.send({ method: 'DELETE', url, headers: traced })
      await hook.receiver.called(4)
      assert.equal(hook.calls[0]?.headers.traceparent, undefined)
      for (const call of hook.calls.slice(1)) isChild(call)
    })

    it('is propagated by a report job to webhooks and to the callback URL', async () => {
      const hook = await subscribe('report.completed')
      const callback = await service.receiver()
      const payload = { reportType: 'users', format: 'csv', webhookUrl: callback.url }
      const accepted = await service.send({ method: 'POST', url: '/api/reports', payload, headers: traced })
      assert.equal(accepted.statusCode, 202, accepted.body)
      await Promise.all([hook.receiver.called(1), callback.called(1)])
      isChild(hook.calls[0] as Call)
      isChild(callback.calls[0] as Call)
    })

    it('is sent with a test call, and with a new span when the test is redelivered', async () => {
      const hook = await subscribe('product.deleted')
      const url = `/api/webhooks/${hook.id}`
      const sent = await service.send({ method: 'POST', url: `${url}/test`, payload: {}, headers: traced })
      await hook.receiver.called(1)
      await service.send({ method: 'POST', url: `${url}/deliveries/${sent.json().id}/redeliver` })
      await hook.receiver.called(2)
      for (const call of hook.calls) isChild(call)
      assert.notEqual(hook.calls[0]?.headers.traceparent, hook.calls[1]?.headers.traceparent)
    })

    it('is not sent if traceparent is missing or invalid, and cannot be set as a static header', async () => {
      const hook = await subscribe('product.created', { headers: { 'X-Team': 'ours' } })
      for (const headers of [{}, { ...traced, traceparent: 'invalid' }]) {
        await service.send({ method: 'POST', url: '/products', payload: product, headers })
      }
      await hook.receiver.called(2)
      for (const { headers } of hook.calls)
        assert.deepEqual([headers.traceparent, headers.tracestate], [undefined, undefined])
      for (const name of ['traceparent', 'Tracestate']) {
        const payload = { event: '*', callbackUrl: 'http://127.0.0.1:9/', headers: { [name]: 'x' } }
        const refused = await service.send({ method: 'POST', url: '/api/webhooks', payload })
        assert.equal(refused.statusCode, 422)
        assert.equal(refused.json().errors[0].field, `headers.${name}`)
      }
    })
  })
})
