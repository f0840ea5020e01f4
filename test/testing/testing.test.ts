import { AssertionError } from 'node:assert'
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { after, before, describe, it } from 'node:test'
import { collection, hooks, job, plinth, schedule, service, Title, Type } from 'plinth'
import { type TestClient, type TestService, testService } from 'plinth/testing'
import definition from '../../examples/invoicing/service.ts'

type Invoicing = Awaited<
  ReturnType<typeof testService<{ tenant: string | undefined }, 'member' | 'auditor' | 'admin' | 'user'>>
>

const rejected = async (promise: Promise<unknown>): Promise<Error & { cause?: unknown }> =>
  promise.then(
    () => assert.fail('the promise was fulfilled'),
    (error) => error,
  )

describe('testService', () => {
  let tested: Invoicing
  let ada: TestClient
  let eve: TestClient
  before(async () => {
    tested = await testService(definition)
    ada = await tested.as({ tenant: 'north' })
    eve = await tested.as({ tenant: 'south' })
  })
  after(() => tested.close())

  const customer = (email: string) => ada.post('/v2/customers', { name: 'Ada', email }).expect(201)
  const invoice = async (email: string, due = '2026-12-31') => {
    const { id: customerId } = await customer(email)
    return ada.post('/v2/invoices', { customerId, due, currency: 'EUR' }).expect(201)
  }

  it('applies access rules with the given claims', async () => {
    const { id, reference } = await invoice('rules@example.com')
    assert.equal(reference, 'R-1')
    await ada.get(`/v2/invoices/${id}`).expect(200)
    await eve.get(`/v2/invoices/${id}`).expect(404)
    await eve.delete(`/v2/invoices/${id}`).expect(404)
  })

  it('returns the status, header fields, text and parsed body of a response', async () => {
    const { status, headers, body, text } = await ada.get<{ items: unknown[] }>('/v2/customers?name=nobody')
    assert.deepEqual([status, body.items, JSON.parse(text)], [200, [], body])
    assert.match(String(headers.etag), /^W\//)
    const missing = await ada.get('/v2/customers/99')
    assert.deepEqual([missing.status, missing.body.errorCode], [404, 'RESOURCE_NOT_FOUND'])
  })

  it('sends PUT, PATCH and DELETE requests with bodies and header fields', async () => {
    const { id } = await customer('methods@example.com')
    const path = `/v2/customers/${id}`
    await ada.put(path, { name: 'Lovelace', email: 'methods@example.com' }, { 'if-match': '"9"' }).expect(412)
    const changed = await ada.patch(path, { name: 'Byron' }, { 'if-match': '"1"' }).expect(200)
    assert.equal(changed.name, 'Byron')
    await ada.patch(path, '{', { 'content-type': 'application/merge-patch+json' }).expect(400)
    assert.equal(await ada.delete(path).expect(204), undefined)
  })

  it('401 without credentials, 403 without the scope', async () => {
    await tested.anonymous.get('/v2/customers').expect(401)
    const reader = await tested.as({ tenant: 'north' }, { scopes: ['customers:read'] })
    await reader.get('/v2/customers').expect(200)
    await reader.post('/v2/customers', { name: 'Ada', email: 'scope@example.com' }).expect(403)
  })

  it('computes claims from the client’s labels or the user if the given claims are null', async () => {
    const { id } = await invoice('labels@example.com')
    const client = await tested.as(null, { labels: { tenant: 'north' } })
    await client.get(`/v2/invoices/${id}`).expect(200)
    const member = await tested.as(null, { user: { tenant: 'north', role: 'member', name: 'Ada' } })
    const { createdBy } = await member.post('/v2/customers', { name: 'M', email: 'member@example.com' }).expect(201)
    assert.match(String(createdBy), /^user:\d+$/)
    const auditor = await tested.as({ tenant: undefined }, { user: { role: 'auditor' } })
    await auditor.get(`/v2/invoices/${id}`).expect(200)
    await auditor.delete(`/v2/invoices/${id}`).expect(403)
  })

  it('rejects an unknown scope and an unknown user field', async () => {
    const scope = await rejected(tested.as(null, { scopes: ['customers:raed'] }))
    assert.match(scope.message, /must not contain customers:raed; the scopes are .*customers:read/)
    const field = await rejected(tested.as(null, { user: { tenat: 'north' } }))
    assert.match(field.message, /users have no field tenat; use .*tenant/)
  })

  it('reports an unexpected status with the response body and the line of the test', async () => {
    const error = await rejected(ada.get('/v2/customers/99').expect(200))
    assert.ok(error instanceof AssertionError)
    assert.deepEqual([error.expected, error.actual], [200, 404])
    assert.match(error.message, /^GET \/v2\/customers\/99: expected 200, got 404: \{.*There is no customer 99/)
    assert.match(String(error.stack?.split('\n    at ')[1]), /testing\.test\.ts:\d+:\d+/)
  })

  it('captures webhook calls only for events that the webhook’s owner can see', async () => {
    const url = 'https://hooks.example.com/invoices'
    await eve.post('/v2/api/webhooks', { event: 'invoice.*', callbackUrl: 'https://south.example.com/' }).expect(201)
    await ada.post('/v2/api/webhooks', { event: 'invoice.created', callbackUrl: url }).expect(201)
    const { id } = await invoice('hooks@example.com')
    const calls = await tested.webhooks()
    assert.deepEqual(
      calls.map((call) => [call.url, call.event, call.body.id]),
      [[url, 'invoice.created', id]],
    )
    assert.match(String(calls[0]?.headers['webhook-signature']), /^v1,/)
  })

  it('captures e-mails that the service sends', async () => {
    const administrator = await tested.as(null, { scopes: ['admin', 'users:read', 'users:read:full', 'users:write'] })
    const user = await administrator.post('/v2/users', { name: 'Ada', email: 'invited@example.com' }).expect(201)
    await administrator.post(`/v2/api/users/${user.id}/invitation`).expect(201)
    const [mail] = await tested.mails()
    assert.deepEqual(mail?.to, { name: 'Ada', address: 'invited@example.com' })
    assert.match(String(mail?.text), /https:\/\/plinth\.test\/oauth\/invitation\?token=/)
  })

  it('generates requested reports, with only the rows that the caller can read', async () => {
    await invoice('report@example.com')
    const { headers } = await ada.post('/v2/api/reports', { reportType: 'customers', format: 'json' })
    await tested.settled()
    const { status, resultUrl } = await ada.get(String(headers.location)).expect(200)
    assert.equal(status, 'completed')
    const rows = await ada.get<{ tenant: string }[]>(String(resultUrl)).expect(200)
    assert.ok(rows.length > 0 && rows.every(({ tenant }) => tenant === 'north'))
  })

  it('moves the clock only when the test advances it, and never backward', async () => {
    const { id } = await invoice('clock@example.com', '2026-01-02')
    await ada.patch(`/v2/invoices/${id}`, { status: 'sent' }).expect(200)
    assert.equal((await ada.get(`/v2/invoices/${id}`).expect(200)).overdue, false)
    await tested.clock.advance('2 days')
    assert.equal(tested.clock.now().toISOString(), '2026-01-03T12:00:00.000Z')
    assert.equal((await ada.get(`/v2/invoices/${id}`).expect(200)).overdue, true)
    await assert.rejects(tested.clock.set('2026-01-01'), /cannot be moved back from 2026-01-03T12:00:00.000Z/)
    // @ts-expect-error: an unknown unit of time
    await assert.rejects(tested.clock.advance('2 weeks'), /'2 weeks' is not a duration/)
  })

  it('records no errors during these tests', () => assert.deepEqual(tested.errors, []))
})

describe('testService with other definitions', () => {
  const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ title: Title }) })

  it('runs hooks immediately, and jobs and schedules when the clock reaches their times', async () => {
    const calls: string[] = []
    const remind = job('note.remind', {
      input: Type.Object({ id: Type.Integer() }),
      run: async ({ id }, { find, fetch, clock }) => {
        const note = await find(notes, id)
        await fetch(`https://mail.example.com/${note?.title}`)
        calls.push(`reminded ${clock().toISOString()}`)
      },
    })
    const added = hooks(notes, { created: ({ id }, { enqueue }) => enqueue(remind, { id }, { after: '36 hours' }) })
    const daily = schedule('daily', '0 8 * * *', async ({ count, clock }) => {
      calls.push(`${await count(notes)} at ${clock().toISOString()}`)
    })
    await using tested = await testService(service({ resources: [notes], code: { remind, added, daily } }), {
      fetch: async (target) => {
        calls.push(String(target))
        return new Response()
      },
    })
    await (await tested.as()).post('/v2/notes', { title: 'one' }).expect(201)
    await tested.clock.advance('2 days')
    assert.deepEqual(calls, [
      '1 at 2026-01-02T08:00:00.000Z',
      'https://mail.example.com/one',
      'reminded 2026-01-03T00:00:00.000Z',
      '1 at 2026-01-03T08:00:00.000Z',
    ])
    assert.deepEqual(tested.errors, [])
  })

  it('retries a failed webhook once the clock reaches the next attempt', async () => {
    let status = 500
    await using tested = await testService(service({ resources: [notes] }), {
      now: '2030-06-01T00:00:00Z',
      receive: () => status,
    })
    const client = await tested.as()
    await client.post('/v2/api/webhooks', { event: '*', callbackUrl: 'https://example.com/' }).expect(201)
    const { createdAt } = await client.post('/v2/notes', { title: 'one' }).expect(201)
    assert.equal(createdAt, '2030-06-01T00:00:00.000Z')
    assert.equal((await tested.webhooks()).length, 1)
    status = 204
    await tested.clock.advance('1 hour')
    const attempts = (await tested.webhooks()).map(({ headers }) => headers['webhook-attempt'])
    assert.deepEqual(attempts, ['1', '2'])
    await tested.clock.advance('1 day')
    assert.equal((await tested.webhooks()).length, 2)
  })

  it('reports an unexpected 500 with the definition’s error as its cause', async () => {
    const { collection: own, service: ownService } = plinth({ claims: () => ({ tenant: 'a' }) })
    const broken = own({
      path: '/notes',
      noun: 'note',
      body: Type.Object({ title: Title }),
      access: () => {
        throw new Error('the rule fails')
      },
    })
    await using tested = await testService(ownService({ resources: [broken] }))
    const error = await rejected((await tested.as()).get('/v2/notes').expect(200))
    assert.match(error.message, /^GET \/v2\/notes: expected 200, got 500: /)
    assert.match(String(error.stack), /Caused by Error: the rule fails\n[^\n]*testing\.test\.ts:\d+/)
    assert.equal(tested.errors.length, 1)
  })

  it('removes its temporary folder when closed', async () => {
    const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('plinth-test-'))
    const earlier = folders()
    const tested = await testService(service({ resources: [notes] }))
    const [folder] = folders().filter((name) => !earlier.includes(name))
    await tested.close()
    assert.ok(folder && !existsSync(`${tmpdir()}/${folder}`))
  })

  it('rejects a value that is not a definition', async () => {
    await assert.rejects(testService({} as never), /the first argument must be the result of service\(\)/)
  })
})

/** Only type-checked, never called. */
export async function types(
  tested: Invoicing & TestService<{ tenant: string | undefined }, 'member' | 'auditor' | 'admin' | 'user'>,
) {
  await testService(definition).then(({ as }) => as({ tenant: 'north' }))
  // @ts-expect-error: an unknown claim
  await tested.as({ tennant: 'north' })
  // @ts-expect-error: an unknown role
  await tested.as({ tenant: 'north' }, { user: { role: 'manager' } })
}
