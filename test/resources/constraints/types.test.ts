import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Type } from 'typebox'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Day, Email } from '../../../src/resources/field-types.ts'

const body = Type.Object({ tenant: Line(1, 40), email: Email, start: Day, end: Type.Optional(Day) })
const declared = { path: '/customers', noun: 'customer', body } as const

/** Never called: TypeScript checks this code (`npm run types`) and reports every unused `@ts-expect-error`. */
export function typed() {
  collection({ ...declared, unique: ['email', ['tenant', 'email'], ['tenant', 'start', 'end']] })
  collection({ ...declared, writeOnly: ['email'], immutable: ['tenant', 'end'] })
  // @ts-expect-error a write-only field is unknown
  collection({ ...declared, writeOnly: ['mail'] })
  // @ts-expect-error an immutable field is unknown
  collection({ ...declared, immutable: ['tenants'] })
  const message = 'must not be before start'
  collection({
    ...declared,
    rules: [{ field: 'end', message, holds: ({ start, end }) => end === undefined || end >= start }],
  })
  // @ts-expect-error the error of a rule names an unknown field
  collection({ ...declared, rules: [{ field: 'ends', message, holds: () => true }] })
  // @ts-expect-error a rule reads an unknown field
  collection({ ...declared, rules: [{ field: 'end', message, holds: ({ begin }) => begin !== undefined }] })
  // @ts-expect-error a rule ignores that its field is optional
  collection({ ...declared, rules: [{ field: 'end', message, holds: ({ end }) => end.length > 1 }] })
  // @ts-expect-error a rule compares values of different types
  collection({ ...declared, rules: [{ field: 'end', message, holds: ({ start }) => start > 7 }] })
  // @ts-expect-error a rule is asynchronous
  collection({ ...declared, rules: [{ field: 'end', message, holds: async () => true }] })
  // @ts-expect-error a rule has no message
  collection({ ...declared, rules: [{ field: 'end', holds: () => true }] })
  collection({ ...declared, locked: { end: { before: 'today' }, tenant: { in: ['north'] } } })
  // @ts-expect-error a lock names an unknown field
  collection({ ...declared, locked: { ends: '2026-03-01' } })
  // @ts-expect-error a lock compares with another type
  collection({ ...declared, locked: { tenant: 7 } })
  // @ts-expect-error a lock is a condition, not a function
  collection({ ...declared, locked: () => ({ tenant: 'north' }) })
  collection({
    ...declared,
    set: { start: ({ clock }) => clock().toISOString().slice(0, 10) },
    defaults: { tenant: 'north', end: () => '2026-03-01' },
  })
  // @ts-expect-error a default names an unknown field
  collection({ ...declared, defaults: { tenants: 'north' } })
  // @ts-expect-error a default has another type
  collection({ ...declared, defaults: { tenant: 7 } })
  // @ts-expect-error the function of a default returns another type
  collection({ ...declared, defaults: { tenant: () => 7 } })
  collection({ ...declared, defaults: { tenant: async ({ next }) => `tenant ${await next('tenants')}` } })
  // @ts-expect-error an asynchronous default has another type
  collection({ ...declared, defaults: { tenant: async ({ next }) => await next('tenants') } })
  // @ts-expect-error the name of a counter is text
  collection({ ...declared, defaults: { tenant: async ({ next }) => `${await next(7)}` } })
  // @ts-expect-error the context has no such member
  collection({ ...declared, set: { tenant: ({ time }) => time } })
  // @ts-expect-error the value of a set field has another type
  collection({ ...declared, set: { start: ({ clock }) => clock() } })
  // @ts-expect-error a tuple names an unknown field
  collection({ ...declared, unique: [['tenant', 'mail']] })
  // @ts-expect-error a tuple has several fields
  collection({ ...declared, unique: [['tenant']] })
  // @ts-expect-error a single unique field is unknown
  collection({ ...declared, unique: ['mail'] })
}

it('wrong names and types in constraints do not compile', () => assert.equal(typeof typed, 'function'))
