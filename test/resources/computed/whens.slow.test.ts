import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

const day = 86_400_000

forEachEngine((engine) => {
  describe('a computed condition', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const create = async (payload: object) => {
      const answer = await send({ method: 'POST', url: '/invoices', payload: { title: 'A', ...payload } })
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    const idsOf = async (query: string) => {
      const answer = await send({ url: `/invoices?${query}` })
      assert.equal(answer.statusCode, 200, answer.body)
      return answer.json().map(({ id }: { id: number }) => id)
    }

    it('is included in every representation and cannot be written', async () => {
      const late = await create({ status: 'sent', due: '2026-02-28', overdue: false })
      assert.deepEqual([late.overdue, late.open], [true, true])
      const url = `/invoices/${late.id}`
      assert.equal((await send({ url })).json().overdue, true)
      const put = await send({ method: 'PUT', url, payload: { ...late, status: 'paid' } })
      assert.deepEqual([put.json().overdue, put.json().open], [false, false])
      const [listed] = (await send({ url: `/invoices?status=paid&fields=overdue,total` })).json()
      assert.deepEqual(listed, { overdue: false, total: '0.00' })
    })

    it('filters lists on its own, negated, or combined with other filters', async () => {
      const title = { title: 'Filtered' }
      const late = (await create({ ...title, status: 'sent', due: '2026-02-01' })).id
      const undated = (await create({ ...title, status: 'sent' })).id
      const draft = (await create({ ...title, status: 'draft', due: '2026-02-01' })).id
      const all = [late, undated, draft]
      const found = async (query: string) => (await idsOf(query)).filter((id: number) => all.includes(id))
      assert.deepEqual(await found('overdue=true'), [late])
      assert.deepEqual(await found('overdue=false'), [undated, draft])
      assert.deepEqual(await found('overdue[not]=true'), [undated, draft])
      assert.deepEqual(await found('overdue[in]=true,false'), all)
      assert.deepEqual(await found('overdue=false&status=sent'), [undated])
      assert.deepEqual(await found('or=overdue:true,status:draft&sort=-id'), [draft, late])
      const counted = await send({ url: '/invoices?overdue=true', headers: { prefer: 'count=exact' } })
      assert.equal(Number(counted.headers['x-total-count']), counted.json().length)
      assert.equal((await send({ url: '/invoices?overdue=yes' })).statusCode, 400)
      assert.equal((await send({ url: '/invoices?open=true' })).statusCode, 400)
      assert.equal((await send({ url: '/invoices?sort=overdue' })).statusCode, 400)
    })

    it('selects exactly the rows with the requested value when used as a filter, for every status and due day', async () => {
      const days = ['2026-02-28', '2026-03-01', '2026-03-02', undefined]
      for (const status of ['draft', 'sent', 'paid']) for (const due of days) await create({ status, due })
      const rows: { id: number; overdue: boolean }[] = (await send({ url: '/invoices?limit=100' })).json()
      for (const value of [true, false]) {
        const expected = rows.filter(({ overdue }) => overdue === value).map(({ id }) => id)
        assert.deepEqual(await idsOf(`overdue=${value}&limit=100`), expected)
      }
    })

    it('returns the same rows on small pages as on one large page when used as a filter', async () => {
      const expected = await idsOf('overdue=false&limit=100')
      assert.ok(expected.length > 4 && expected.length < (await idsOf('limit=100')).length)
      const found: number[] = []
      for (let url: string | null = '/v2/invoices?overdue=false&limit=2'; url !== null; ) {
        const page = await send({ url })
        assert.equal(page.statusCode, 200, page.body)
        found.push(...page.json().items.map(({ id }: { id: number }) => id))
        url = page.json().next
      }
      assert.deepEqual(found, expected)
    })

    it('changes with the date, as do entity tags; for writes, If-Match compares only the revision', async () => {
      const { id } = await create({ title: 'Tomorrow', status: 'sent', due: '2026-03-01' })
      const url = `/invoices/${id}`
      const today = await send({ url })
      const list = await send({ url: '/invoices?limit=100' })
      assert.deepEqual([today.json().overdue, today.headers.etag], [false, '"1.2026-03-01"'])
      assert.equal(today.headers['last-modified'], undefined)
      const headers = { 'if-none-match': String(today.headers.etag) }
      assert.equal((await send({ url, headers })).statusCode, 304)
      assert.equal((await send({ url, headers: { 'if-match': '"1.2026-03-01"' } })).statusCode, 200)
      service.clock.now += day
      try {
        const tomorrow = await send({ url, headers })
        assert.deepEqual([tomorrow.statusCode, tomorrow.json().overdue], [200, true])
        assert.equal(tomorrow.headers.etag, '"1.2026-03-02"')
        const later = await send({
          url: '/invoices?limit=100',
          headers: { 'if-none-match': String(list.headers.etag) },
        })
        assert.equal(later.statusCode, 200)
        assert.equal(later.json().find((row: { id: number }) => row.id === id).overdue, true)
        assert.ok((await idsOf('overdue=true')).includes(id))
        assert.equal((await send({ url, headers: { 'if-match': '"1.2026-03-01"' } })).statusCode, 412)
        // Unlike in GET, the date in the tag is ignored: a write checks only the revision.
        const changed = await send({
          ...{ method: 'PATCH', url, payload: { title: 'B' } },
          headers: { 'if-match': '"1.2026-03-01"' },
        })
        assert.deepEqual([changed.statusCode, changed.headers.etag], [200, '"2.2026-03-02"'])
        const outdated = await send({ method: 'DELETE', url, headers: { 'if-match': '"1.2026-03-02"' } })
        assert.equal(outdated.statusCode, 412)
        const since = await send({ url, headers: { 'if-modified-since': new Date(service.clock.now).toUTCString() } })
        assert.equal(since.statusCode, 200)
      } finally {
        service.clock.now -= day
      }
    })

    it('is in the OpenAPI document, as a read-only member and as a parameter', async () => {
      const { paths, components } = (await send({ url: '/openapi.json' })).json()
      const parameters = JSON.stringify(paths['/invoices'].get.parameters)
      assert.match(parameters, /parameters\/Overdue"/)
      assert.doesNotMatch(parameters, /parameters\/Open/)
      const schemas = Object.values(components.schemas) as { properties?: Record<string, Record<string, unknown>> }[]
      const shown = schemas.flatMap(({ properties }) => (properties?.overdue ? [properties] : []))
      assert.ok(shown.length > 0)
      for (const { overdue, total } of shown) {
        assert.deepEqual([overdue?.type, overdue?.readOnly, total?.readOnly], ['boolean', true, true])
        assert.match(String(overdue?.description), /^True when \{"status":"sent","due":\{"before":"today"\}\}$/)
      }
      const body = JSON.stringify(paths['/invoices'].post.requestBody)
      assert.doesNotMatch(body, /overdue/)
    })
  })
})
