import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { collection, Day, Decimal, DefinitionError, Ref, report, service, Title, Type } from '../../../src/plinth.ts'
import { invoices } from './service.ts'

const errorsOf = (options: unknown, of: unknown = invoices): string[] => {
  try {
    report(of as typeof invoices, options as never)
  } catch (error) {
    assert.ok(error instanceof DefinitionError, String(error))
    return error.message.split('\n')
  }
  return []
}
const named = (options: object) => errorsOf({ name: 'revenue', ...options })
const place = "report 'revenue': "

/** Never called: TypeScript checks this code (`npm run types`) and reports every unused `@ts-expect-error`. */
export function typed() {
  const period = Type.Object({ from: Day, to: Type.Optional(Day), seats: Type.Integer() })
  report(invoices, {
    ...{ name: 'revenue', title: 'Revenue', parameters: period },
    where: ({ from, to, seats }) => ({ any: [{ due: { from, to } }, { seats: { from: seats } }, { id: 7 }] }),
    group: { day: { day: 'createdAt' }, year: { year: 'sentAt' }, isOpen: 'isOpen', seats: 'seats' },
    show: {
      total: { sum: 'total' },
      seats: { max: 'seats' },
      last: { max: 'updatedAt' },
      mean: { avg: 'total' },
      rows: 'count',
    },
  })
  report(invoices, { name: 'revenue', where: () => true })
  // @ts-expect-error the name is missing
  report(invoices, { show: { rows: 'count' } })
  // @ts-expect-error an unknown option
  report(invoices, { name: 'revenue', groups: { month: { month: 'due' } } })
  // @ts-expect-error a group of an unknown field
  report(invoices, { name: 'revenue', group: { currency: 'curency' } })
  // @ts-expect-error a group of a list
  report(invoices, { name: 'revenue', group: { tags: 'tags' } })
  // @ts-expect-error an unknown part of a date
  report(invoices, { name: 'revenue', group: { week: { week: 'due' } } })
  // @ts-expect-error two parts of a date in one column
  report(invoices, { name: 'revenue', group: { day: { day: 'due', month: 'due' } } })
  // @ts-expect-error the month of an enumeration
  report(invoices, { name: 'revenue', group: { month: { month: 'status' } } })
  // @ts-expect-error the month of a number
  report(invoices, { name: 'revenue', group: { month: { month: 'seats' } } })
  // @ts-expect-error the sum of an unknown field
  report(invoices, { name: 'revenue', show: { total: { sum: 'totals' } } })
  // @ts-expect-error the sum of an enumeration
  report(invoices, { name: 'revenue', show: { total: { sum: 'status' } } })
  // @ts-expect-error the sum of booleans
  report(invoices, { name: 'revenue', show: { total: { sum: 'isOpen' } } })
  // @ts-expect-error the average of an enumeration
  report(invoices, { name: 'revenue', show: { total: { avg: 'status' } } })
  // @ts-expect-error an unknown aggregate
  report(invoices, { name: 'revenue', show: { total: { median: 'total' } } })
  // @ts-expect-error a field is not an aggregate
  report(invoices, { name: 'revenue', show: { total: 'total' } })
  // @ts-expect-error the condition reads an unknown parameter
  report(invoices, { name: 'revenue', parameters: period, where: ({ until }) => ({ due: { to: until } }) })
  // @ts-expect-error the condition compares values of different types
  report(invoices, { name: 'revenue', parameters: period, where: ({ from }) => ({ seats: from }) })
  // @ts-expect-error the condition names an unknown field
  report(invoices, { name: 'revenue', where: () => ({ state: 'paid' }) })
  // @ts-expect-error the condition names an unknown value
  report(invoices, { name: 'revenue', where: () => ({ status: 'late' }) })
  // @ts-expect-error the condition is asynchronous
  report(invoices, { name: 'revenue', where: async () => ({ status: 'paid' }) })
  // @ts-expect-error without parameters, the condition has none
  report(invoices, { name: 'revenue', where: ({ from }) => ({ due: { from } }) })
}

describe('report()', () => {
  it('refuses columns of unknown fields, and suggests the nearest field name', () => {
    assert.deepEqual(named({ group: { currency: 'curency' }, show: { total: { sum: 'totals' } } }), [
      `${place}group.currency names 'curency', which is not a field: did you mean currency?`,
      `${place}show.total names 'totals', which is not a field: did you mean total?`,
    ])
  })

  it('refuses sums, averages, minimums, maximums and groups of fields that do not support them', () => {
    const none = 'is not a number, decimal, day or instant, so'
    assert.deepEqual(
      named({
        group: { tags: 'tags', month: { month: 'note' }, year: { year: 'total' } },
        show: {
          note: { sum: 'note' },
          due: { sum: 'due' },
          mean: { avg: 'due' },
          weight: { avg: 'weight' },
          least: { min: 'note' },
          most: { max: 'isOpen' },
        },
      }),
      [
        `${place}group.tags names tags, which is an object or a list`,
        `${place}group.month names note, which is neither a day nor an instant`,
        `${place}group.year names total, which is neither a day nor an instant`,
        `${place}show.note names note, which is not a number or decimal, so sum cannot be used`,
        `${place}show.due names due, which is not a number or decimal, so sum cannot be used`,
        `${place}show.mean names due, which is not a number or decimal, so avg cannot be used`,
        `${place}show.weight names weight, which is a floating-point number, whose average depends on the order of the rows: declare a Decimal`,
        `${place}show.least names note, which ${none} min cannot be used`,
        `${place}show.most names isOpen, which ${none} max cannot be used`,
      ],
    )
  })

  it('refuses sums of references', () => {
    const body = Type.Object({ invoiceId: Ref(invoices) })
    const lines = collection({ path: '/lines', noun: 'line', body })
    const [error = ''] = errorsOf({ name: 'revenue', show: { sum: { sum: 'invoiceId' } } }, lines)
    assert.match(error, /show\.sum names invoiceId, which is not a number or decimal/)
  })

  it('refuses unknown date parts, unknown aggregates and malformed columns', () => {
    const [week = '', two = '', median = '', field = ''] = named({
      group: { week: { week: 'due' }, two: { day: 'due', month: 'due' } },
      show: { median: { median: 'total' }, total: 'total' },
    })
    assert.equal(week, `${place}group.week names due, which cannot be grouped by week: use day, month, year`)
    assert.match(two, /group\.two must be a field or a part of a date, such as 'currency' or \{ month: 'due' \}/)
    assert.equal(median, `${place}show.median names total, which has no median: use sum, avg, min, max`)
    assert.match(field, /show\.total must be 'count' or one aggregate of a field, such as \{ sum: 'total' \}/)
    assert.match(String(named({ group: ['due'] })), /group and show must be objects of columns/)
  })

  it('refuses fields that lists never contain', () => {
    const [error = ''] = named({ group: { pin: 'pin' } })
    assert.match(error, /group\.pin names pin, which lists and reports never contain: use one of reference, /)
    assert.doesNotMatch(error.split('use one of')[1] ?? '', /pin/)
  })

  it('refuses duplicate and invalid column names, and more than 50 columns', () => {
    assert.deepEqual(named({ group: { total: 'currency' }, show: { total: { sum: 'total' } } }), [
      `${place}group and show both have a column total: rename one`,
    ])
    assert.deepEqual(named({ show: { 'the total': { sum: 'total' } } }), [
      `${place}show.the total: a column has a name in camelCase, such as 'total'`,
    ])
    const show = Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`rows${at}`, 'count']))
    assert.deepEqual(named({ show }), [`${place}group and show have more than 50 columns together`])
  })

  it('refuses unknown options and options of the wrong type', () => {
    assert.deepEqual(named({ title: 7, parameters: { from: Day }, where: { status: 'paid' }, groups: {} }), [
      `${place}title must be text`,
      `${place}report() has no option groups: did you mean group?`,
      `${place}parameters must be created with Type.Object()`,
      `${place}where must be a function that returns a condition, such as ({ from, to }) => ({ due: { from, to } })`,
    ])
    const [error = ''] = errorsOf({ name: 'Revenue!' })
    assert.match(error, /name must be lower-case, such as 'revenue' or 'revenue-by-month'/)
    assert.match(String(errorsOf({ name: 'revenue' }, {})), /the first argument must be a collection/)
  })

  it('refuses parameters with an invalid decimal precision or default', () => {
    const parameters = Type.Object({
      least: Decimal(20, 2),
      status: Type.Enum(['draft', 'paid'], { default: 'late' }),
    })
    assert.deepEqual(named({ parameters }), [
      `${place}parameters: the precision of least must be an integer from 1 to 18, not 20`,
      `${place}parameters: the default of status is not valid for its type`,
    ])
  })
})

describe('service({ reports })', () => {
  const revenue = report(invoices, { name: 'revenue', show: { total: { sum: 'total' } } })
  const refusalOf = (reports: unknown[], resources = [invoices] as unknown[]) => {
    try {
      service({ resources, reports } as never)
    } catch (error) {
      assert.ok(error instanceof DefinitionError)
      return error.message
    }
    return ''
  }

  it('refuses two reports with the same name', () => {
    assert.equal(refusalOf([revenue, revenue]), 'service: the report type revenue is declared twice')
    const taken = report(invoices, { name: 'invoices' })
    assert.equal(refusalOf([taken]), 'service: the report type invoices is declared twice')
    const reserved = report(invoices, { name: 'activity' })
    assert.equal(refusalOf([reserved]), 'service: the report type activity is declared twice')
  })

  it('refuses reports on resources that the service does not have', () => {
    const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ title: Title }) })
    assert.equal(
      refusalOf([revenue], [notes]),
      "service: the report 'revenue' reads /invoices, which resources must include",
    )
  })
})
