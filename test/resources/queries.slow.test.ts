import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, describe, it } from 'node:test'
import fc from 'fast-check'
import { Type } from 'typebox'
import { service as define } from '../../src/definition/service.ts'
import { Line } from '../../src/http/text-rules.ts'
import { collection } from '../../src/resources/collection.ts'
import { Decimal } from '../../src/resources/decimal-fields.ts'
import { Day, Instant, Price, Url } from '../../src/resources/field-types.ts'
import { caseFold } from '../../src/storage/rows/page-query.ts'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

/** Set SEED to reproduce a failed run. */
const seed = Number(process.env.SEED ?? 20_261_122)

const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 40),
    status: Type.Enum(['draft', 'sent', 'paid']),
    place: Type.Optional(Type.Enum(['Ulm, Germany', 'Bern'])),
    level: Type.Integer(),
    total: Type.Optional(Price),
    due: Type.Optional(Day),
    startsAt: Type.Optional(Instant),
    isOpen: Type.Optional(Type.Boolean()),
    topic: Type.Optional(Line(0, 40)),
    page: Type.Optional(Url),
    fee: Type.Optional(Decimal(6, 2)),
    secret: Type.Optional(Line(0, 40)),
  }),
  filters: ['reference', 'status', 'place', 'level', 'isOpen', 'topic', 'page', 'due'],
  ranges: ['total', 'fee', 'due', 'startsAt'],
  search: ['reference'],
  sorts: ['topic'],
})
const words = collection({
  path: '/words',
  noun: 'word',
  body: Type.Object({ or: Line(1, 20), count: Type.Integer() }),
  filters: ['or', 'count'],
})
const tags = collection({ path: '/tags', noun: 'tag', body: Type.Object({ name: Line(1, 40) }), filters: ['name'] })
const definition = define({
  resources: [invoices, words, tags],
  versions: { v1: { resources: [invoices, words, tags], unknownParameters: 'ignore' }, v2: [invoices, words, tags] },
})
const scopes = 'invoices:read invoices:write words:read words:write tags:read tags:write'

const rows = [
  {
    reference: 'A-1',
    status: 'draft',
    level: 1,
    total: 5,
    due: '2026-02-28',
    isOpen: true,
    topic: 'Füller',
    page: 'https://a.example/x',
  },
  { reference: 'a-2', status: 'sent', level: 2, total: 10, due: '2026-03-01', isOpen: false, place: 'Ulm, Germany' },
  {
    reference: 'B, "C"',
    status: 'sent',
    level: 3,
    total: 10.5,
    startsAt: '2026-03-01T12:00:00.000Z',
    topic: '',
    place: 'Bern',
  },
  { reference: 'b:d', status: 'paid', level: -4, due: '2026-03-02', topic: 'fuller' },
  {
    reference: '%_',
    status: 'paid',
    level: 5,
    startsAt: '2026-04-01T00:00:00.000Z',
    topic: 'FU\u0308LLER',
    page: 'https://A.example/',
  },
]

forEachEngine((engine) => {
  describe(`GET /invoices with operators (SEED=${seed})`, () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    before(async () => {
      for (const payload of rows)
        assert.equal((await send({ method: 'POST', url: '/invoices', payload })).statusCode, 201)
    })
    const found = async (query: string) => {
      const answer = await send({ url: `/invoices?${query}` })
      assert.equal(answer.statusCode, 200, `${query} ${answer.body}`)
      return answer
        .json()
        .map(({ id }: { id: number }) => id)
        .join('')
    }

    const selected: [query: string, ids: string][] = [
      ['status=draft,sent', '123'],
      ['status=paid', '45'],
      ['status=draft,unknown', '1'],
      ['status[in]=draft,paid', '145'],
      ['status[in]=draft', '1'],
      ['status[not]=sent', '145'],
      ['place=Ulm,%20Germany', '2'],
      ['place[in]="Ulm,%20Germany",Bern', '23'],
      ['place[not]=Bern', '1245'],
      ['place[null]=true', '145'],
      ['place[null]=false', '23'],
      ['reference[in]=a-1,A-2', '12'],
      ['reference[in]="b,%20""c"""', '3'],
      ['reference[prefix]=a', '12'],
      ['reference[prefix]=B', '34'],
      ['reference[prefix]=%25', '5'],
      ['reference[prefix]=@', ''],
      ['reference[prefix]=B&reference[not]=b:d&status=sent', '3'],
      ['reference[not]=a-1', '2345'],
      ['reference%5Bprefix%5D=a-', '12'],
      ['level[from]=2', '235'],
      ['level[to]=2', '124'],
      ['level[after]=2&level[before]=5', '3'],
      ['level[from]=2&place[null]=true', '5'],
      ['reference[prefix]=a&or=level:2,place[null]:true&q=2', '2'],
      ['level[in]=1,-4,9', '14'],
      ['level[not]=1', '2345'],
      ['total[from]=10', '23'],
      ['total[before]=10', '1'],
      ['total[in]=10.5,5', '13'],
      ['total[not]=10', '1345'],
      ['total[null]=true', '45'],
      ['minTotal=6&total[to]=10', '2'],
      ['due[from]=2026-03-01', '24'],
      ['due[after]=2026-03-01', '4'],
      ['due[to]=2026-03-01', '12'],
      ['dueAfter=2026-02-28&due[before]=2026-03-02', '2'],
      ['due[in]=2026-02-28,2026-03-02', '14'],
      ['startsAt[from]=2026-03-01T13:00:00%2B01:00', '35'],
      ['startsAt[after]=2026-03-01T12:00:00Z', '5'],
      ['startsAt[before]=2026-04-01', '3'],
      ['startsAt[null]=true', '124'],
      ['isOpen[not]=true', '2345'],
      ['isOpen[in]=true,false', '12'],
      ['isOpen[null]=true', '345'],
      ['topic[in]=füller', '15'],
      ['topic[in]=', ''],
      ['level[in]=', ''],
      ['topic[in]=""', '3'],
      ['topic[in]=,fuller', '34'],
      ['topic[prefix]=', '1345'],
      ['topic[null]=true', '2'],
      ['topic[not]=', '1245'],
      ['page[prefix]=https://a', '1'],
      ['page[prefix]=https://', '15'],
      ['or=status:draft,total[from]:10', '123'],
      ['or=reference:"b,%20""C""",level:5', '35'],
      ['or=reference:b:d', '4'],
      ['or=isOpen[null]:false,due:2026-03-02', '124'],
      ['or=place:"Ulm,%20Germany",startsAt[after]:2026-03-15T00:00:00Z', '25'],
      ['or=level:1,level:2&status=sent', '2'],
      ['or=topic:,status:draft', '13'],
      ['q=a-&or=level:1,level:3', '1'],
      ['q=a-&status[not]=draft', '2'],
      ['status[in]=draft,paid&level[from]=1&sort=-level', '51'],
      ['level[not]=1&sort=topic,-id&limit=3', '324'],
    ]
    for (const [query, ids] of selected) {
      it(`200 with the matching rows: ${decodeURIComponent(query)}`, async () => assert.equal(await found(query), ids))
    }

    it('200 for the example list requests in docs/resources.md', async () => {
      const page = readFileSync(new URL('../../docs/resources.md', import.meta.url), 'utf8')
      const requests = [...page.matchAll(/^GET \/invoices\?(.+)$/gm)].map(([, query]) => query as string)
      // These invoices have no reference to a customer; relations are tested elsewhere.
      const shown = requests.filter((query) => !query.includes('customer.'))
      assert.ok(shown.length >= 5)
      for (const query of shown) await found(query)
    })

    it('200 for quoted values with any punctuation in [in] and `or`', async () => {
      const signs = fc.constantFrom(
        '"',
        ',',
        '""',
        ':',
        '[',
        ']',
        '(',
        ')',
        '%',
        '_',
        '&',
        '=',
        '+',
        ' ',
        'é',
        '𝒜',
        'x',
      )
      const values = fc.array(
        fc.array(signs, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('')),
        { minLength: 1, maxLength: 8 },
      )
      const valid = values.filter((all) => all.every((one) => one === one.trim()))
      const quoted = (value: string) => `"${value.replaceAll('"', '""')}"`
      await fc.assert(
        fc.asyncProperty(valid, fc.nat(7), async (all, count) => {
          for (const name of new Set(all)) await send({ method: 'POST', url: '/v2/tags', payload: { name } })
          const wanted = all.slice(0, count + 1)
          const list = async (query: string) => {
            const answer = await send({ url: `/v2/tags?limit=200&${query}` })
            assert.equal(answer.statusCode, 200, answer.body)
            return new Set(answer.json().items.map((item: { name: string }) => caseFold(item.name)))
          }
          const meant = new Set(wanted.map(caseFold))
          const alternatives = wanted.map((value) => `name:${quoted(value)}`)
          assert.deepEqual(await list(`name[in]=${encodeURIComponent(wanted.map(quoted).join())}`), meant)
          assert.deepEqual(await list(`or=${encodeURIComponent(alternatives.join())}`), meant)
        }),
        { seed, numRuns: 40 },
      )
    })

    const refused: [query: string, field: string, message: RegExp][] = [
      ['status[in]=draft,payd', 'status[in]', /^must be one of draft, sent, paid, not "payd"$/],
      ['status[not]=x', 'status[not]', /^must be one of/],
      ['place[null]=yes', 'place[null]', /^must be true or false$/],
      ['isOpen[not]=1', 'isOpen[not]', /^must be true or false, not "1"$/],
      ['level[from]=1.5', 'level[from]', /^must be an integer within/],
      ['level[in]=1,,2', 'level[in]', /^must be an integer within .*, not ""$/],
      ['level[to]=9007199254740993', 'level[to]', /^must be an integer within/],
      ['total[after]=many', 'total[after]', /^must be a number, not "many"$/],
      ['fee[from]=1.005', 'fee[from]', /^must have at most 2 digits after the decimal point, not "1.005"$/],
      ['or=fee:many', 'or', /^must be a decimal number such as/],
      ['due[from]=2026-02-30', 'due[from]', /^must be a day such as 2026-03-01, not "2026-02-30"$/],
      ['due[before]=today', 'due[before]', /^must be a day such as 2026-03-01, not "today"$/],
      ['startsAt[to]=noon', 'startsAt[to]', /^must be an instant/],
      ['reference[not]=a%00', 'reference[not]', /^must not contain control characters$/],
      [`reference[prefix]=${'x'.repeat(301)}`, 'reference[prefix]', /^must have at most 300 characters in a value$/],
      [`level[in]=${Array(51).fill('1')}`, 'level[in]', /^must have at most 50 values$/],
      [`status=${Array.from({ length: 51 }, (_, at) => `s${at}`)}`, 'status', /^must have at most 50 values$/],
      ['or=', 'or', /^must be field:value or field\[operator\]:value, separated by commas/],
      ['or=status', 'or', /not 'status'$/],
      ['or=status:draft,', 'or', /^must be field:value/],
      ['or=status:draft,,level:1', 'or', /^must be field:value/],
      ['or=statu:draft', 'or', /^does not support 'statu'; use reference, status, /],
      ['or=secret:x', 'or', /^does not support 'secret'/],
      ['or=id:1', 'or', /^does not support 'id'/],
      ['or=level[in]:1', 'or', /^does not support 'level\[in\]'/],
      ['or=level[prefix]:1', 'or', /^does not support 'level\[prefix\]'/],
      ['or=level:x', 'or', /^must be an integer/],
      [`or=${Array(11).fill('level:1')}`, 'or', /^must have at most 10 alternatives$/],
      [`or=reference:${'x'.repeat(991)}`, 'or', /^must have at most 1000 characters$/],
      ['or=level:1&or=level:2', 'or', /string/],
      ['level[in]=1&level[in]=2', 'level[in]', /string/],
    ]
    for (const [query, field, message] of refused) {
      it(`400 naming ${field}: ${query.slice(0, 60)}`, async () => {
        for (const prefix of ['', '/v2']) {
          const answer = await send({ url: `${prefix}/invoices?${query}` })
          assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], answer.body)
          assert.deepEqual(
            answer.json().errors.map((error: { field: string }) => error.field),
            [field],
          )
          assert.match(answer.json().errors[0].message, message)
        }
      })
    }

    it('400 naming every invalid parameter', async () => {
      const answer = await send({ url: '/invoices?level[from]=x&due[to]=y&or=z' })
      assert.deepEqual(
        answer.json().errors.map(({ field }: { field: string }) => field),
        ['level[from]', 'due[to]', 'or'],
      )
    })

    it('400 for more than 20 parameters with operators', async () => {
      const numbers = ['level', 'total'].flatMap((field) =>
        ['in', 'not', 'from', 'to', 'before', 'after'].map((op) => `${field}[${op}]=1`),
      )
      const days = ['in', 'not', 'from', 'to', 'before', 'after'].map((operator) => `due[${operator}]=2026-03-01`)
      const twenty = [...numbers, ...days, 'status[in]=draft', 'status[not]=paid'].join('&')
      assert.equal((await send({ url: `/invoices?${twenty}` })).statusCode, 200)
      const answer = await send({ url: `/invoices?${twenty}&place[null]=true` })
      assert.deepEqual(answer.json().errors, [
        { field: 'place[null]', message: 'exceeds the limit: at most 20 parameters may have operators' },
      ])
    })

    it('400 in v2 for an unknown operator or field, which v1 ignores', async () => {
      const unknown = {
        'status[inn]': 'did you mean status[in]?',
        'statu[in]': 'did you mean status[in]?',
        'reference[null]': 'did you mean reference[not]?',
        'secret[prefix]':
          'expected limit, cursor, sort, fields, q, updatedAfter, reference, status, place, level, isOpen, topic, page, due, minTotal, maxTotal, minFee, maxFee, dueAfter, dueBefore, startsAfter, startsBefore, or',
      }
      for (const [name, hint] of Object.entries(unknown)) {
        const answer = await send({ url: `/v2/invoices?${name}=x` })
        assert.equal(answer.statusCode, 400, name)
        assert.deepEqual(answer.json().errors, [{ field: name, message: `is not a parameter: ${hint}` }])
        assert.equal(await found(`${name}=x`), '12345')
      }
    })

    it('200 with only the matching rows on all pages; 400 for a cursor from another query', async () => {
      const query = 'status[in]=draft,paid&or=level[from]:1,level:-4&sort=-level&limit=1'
      const seen: number[] = []
      let url: string | undefined = `/v2/invoices?${query}`
      let second = ''
      while (url !== undefined) {
        const answer = await send({ url })
        assert.equal(answer.statusCode, 200, answer.body)
        seen.push(...answer.json().items.map(({ id }: { id: number }) => id))
        url = answer.json().next ?? undefined
        second ||= url ?? ''
      }
      assert.deepEqual(seen, [5, 1, 4])
      const cursor = new URL(second, 'https://plinth.test').searchParams.get('cursor')
      for (const other of ['status[in]=draft,sent&', 'status[in]=paid&', '']) {
        const answer = await send({
          url: `/v2/invoices?${other}or=level[from]:1,level:-4&sort=-level&limit=1&cursor=${cursor}`,
        })
        assert.deepEqual(answer.json().errors, [
          { field: 'cursor', message: 'belongs to a list with a different filter or sort' },
        ])
      }
    })

    it('200 with the number of matching rows for Prefer: count=exact', async () => {
      for (const [query, total] of [
        ['status[not]=sent&limit=1', '3'],
        ['level[from]=2&limit=1', '3'],
        ['q=a-&or=level:1,level:9', '1'],
      ]) {
        const answer = await send({ url: `/invoices?${query}`, headers: { prefer: 'count=exact' } })
        assert.equal(answer.headers['x-total-count'], total, query)
      }
    })

    it('200 with the current rows after a row of a cached page changes; a field named `or` is filtered by equality', async () => {
      const url = '/words?or=or%3Aa,count:7'
      const create = async (or: string, count: number) =>
        (await send({ method: 'POST', url: '/words', payload: { or, count } })).json().id
      const id = await create('a', 7)
      await create('b', 7)
      const list = async () => (await send({ url: '/words?count[in]=7,8' })).json().length
      assert.deepEqual([await list(), await list()], [2, 2])
      await send({ method: 'PUT', url: `/words/${id}`, payload: { or: 'a', count: 9 } })
      assert.equal(await list(), 1)
      // The filter compares the field with the whole text `or:a,count:7`, a value that no row has.
      assert.deepEqual((await send({ url })).json(), [])
      assert.equal((await send({ url: '/words?or=a' })).json().length, 1)
    })
  })
})
