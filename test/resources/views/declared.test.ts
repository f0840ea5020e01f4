import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { loadDefinition } from '../../../src/cli/load-definition.ts'
import { service } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { view } from '../../../src/resources/views/view.ts'
import { DefinitionError } from '../../../src/startup-errors.ts'

const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Title }) })
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 20),
    customerId: Ref(customers),
    status: Type.Enum(['draft', 'sent'], { default: 'draft' }),
    due: Type.Optional(Day),
    currency: Type.Enum(['EUR', 'USD']),
    origin: Line(1, 20),
    serial: Line(1, 20),
    count: Type.Integer(),
  }),
  filters: ['reference', 'currency'],
  ranges: ['count'],
  unique: ['serial'],
  set: { origin: () => 'api' },
  defaults: { serial: ({ clock }) => String(clock().getTime()) },
})
const lines = collection({ path: '/lines', noun: 'line', body: Type.Object({ invoiceId: Ref(invoices), text: Title }) })

/** Never called: TypeScript checks this code (`npm run types`) and reports every unused `@ts-expect-error`. */
export function typed() {
  view(invoices, { rename: { reference: 'number' }, hide: ['currency'], defaults: { currency: 'EUR' } })
  view(invoices, { hide: ['due'] })
  view(invoices, { hide: ['origin', 'serial'] })
  view(invoices, { rename: {}, defaults: { reference: ({ clock }) => clock().toISOString() } })
  // @ts-expect-error a hidden required field has no default
  view(invoices, { hide: ['currency'] })
  // @ts-expect-error one of the hidden required fields has no default
  view(invoices, { hide: ['currency', 'reference'], defaults: { currency: 'EUR' } })
  // @ts-expect-error a renamed field is unknown
  view(invoices, { rename: { references: 'number' } })
  // @ts-expect-error a hidden field is unknown
  view(invoices, { hide: ['price'] })
  // @ts-expect-error a default names an unknown field
  view(invoices, { defaults: { price: 1 } })
  // @ts-expect-error a default has another type
  view(invoices, { hide: ['currency'], defaults: { currency: 7 } })
  // @ts-expect-error a default is not one of the choices
  view(invoices, { hide: ['currency'], defaults: { currency: 'GBP' } })
  // @ts-expect-error the function of a default returns another type
  view(invoices, { hide: ['count'], defaults: { count: () => 'many' } })
  // @ts-expect-error a name is not text
  view(invoices, { rename: { reference: 7 } })
  // @ts-expect-error an option is unknown
  view(invoices, { renamed: { reference: 'number' } })
}

const errorOf = (declare: () => unknown): string => {
  try {
    declare()
  } catch (error) {
    assert.ok(error instanceof DefinitionError, String(error))
    return error.message
  }
  return assert.fail('it was accepted')
}

describe('view()', () => {
  const refused: [what: string, options: unknown, message: RegExp][] = [
    ['missing options', undefined, /^view of \/invoices: its options must be an object such as/],
    ['an unknown option', { renames: {} }, /view\(\) has no option renames: did you mean rename\?$/],
    ['a list of names', { rename: ['number'] }, /rename must be an object such as \{ reference: 'number' \}$/],
    ['a single hidden field', { hide: 'due' }, /hide must be an array of fields such as \['currency'\]$/],
    [
      'a name for an unknown field',
      { rename: { referense: 'number' } },
      /rename names 'referense', .*: did you mean reference\?$/,
    ],
    ['an unknown hidden field', { hide: ['price'] }, /hide names 'price', but body has no such field: use one of ref/],
    ['a reserved name', { rename: { reference: 'revision' } }, /a name that cannot be used: .* revision is reserved$/],
    ['a name that is not in camelCase', { rename: { reference: 'Number' } }, /the field name Number must be camelCase/],
    ['a name that is not text', { rename: { reference: null } }, /the field name must be text, not object$/],
    [
      'the name of another field',
      { rename: { reference: 'status' } },
      /rename gives reference the name status, which another field has: hide or rename that one, or choose another name$/,
    ],
    [
      'one name for two fields',
      { rename: { reference: 'name', count: 'name' } },
      /rename gives reference the name name, .*\n.*rename gives count the name name/,
    ],
    ['a name for a hidden field', { rename: { due: 'day' }, hide: ['due'] }, /rename and hide both name due/],
    [
      'a hidden required field without a value',
      { hide: ['currency'] },
      /^view of \/invoices: hide includes currency, which is required: give it a value in defaults$/,
    ],
    [
      'an invalid default',
      { defaults: { currency: 'GBP' } },
      /defaults: the value of currency is not valid for its type$/,
    ],
    [
      'a default for an unknown field',
      { defaults: { price: 1 } },
      /defaults names 'price', but body has no such field$/,
    ],
    ['an async default', { defaults: { currency: async () => 'EUR' } }, /the function of currency must not be async: /],
    [
      'a default for a field in `set`',
      { defaults: { origin: 'x' } },
      /defaults cannot include origin: the collection sets it/,
    ],
    [
      'a constant default for a unique field',
      { defaults: { serial: 'x' } },
      /defaults cannot include serial: it is unique/,
    ],
    [
      'a name without Id for a reference',
      { rename: { customerId: 'client' } },
      /its name must end in Id, such as clientId$/,
    ],
    [
      'a reference whose relation is another field',
      { rename: { customerId: 'clientId', due: 'client' } },
      /clientId is the reference of 'client', which is the name of another member: rename one$/,
    ],
    ['the name of a query parameter', { rename: { reference: 'sort' } }, /define the query parameter sort twice/],
    [
      'the name of a range parameter',
      { rename: { reference: 'minCount' } },
      /define the query parameter minCount twice/,
    ],
  ]
  for (const [what, options, message] of refused) {
    it(`refuses ${what}`, () =>
      assert.match(
        errorOf(() => view(invoices, options as object)),
        message,
      ))
  }

  it('refuses a view of anything other than a collection, such as another view', () => {
    const first = view(invoices, { rename: { reference: 'number' } })
    assert.match(
      errorOf(() => view(first, { hide: [] })),
      /^view of \/invoices: a view is made of a collection/,
    )
    assert.match(
      errorOf(() => view({} as never, {})),
      /^view: pass a collection\(\) result first$/,
    )
  })

  it('refuses to hide every field', () => {
    assert.match(
      errorOf(() => view(customers, { hide: ['name'], defaults: { name: 'x' } })),
      /leave at least one$/,
    )
  })

  it('accepts a hidden field’s name as a new name, and two fields that swap names', () => {
    const { declaration } = view(invoices, {
      rename: { reference: 'serial', due: 'status', count: 'due' },
      hide: ['serial', 'status'],
      // The types do not reflect that the schema of `status` has a default.
      defaults: { status: 'draft' },
    })
    assert.deepEqual(declaration.columns, {
      ...{ serial: 'reference', serialHidden: 'serial', status: 'due', statusHidden: 'status', due: 'count' },
    })
    const exchanged = view(invoices, { rename: { reference: 'serial', serial: 'reference' } }).declaration
    assert.deepEqual(exchanged.columns, { serial: 'reference', reference: 'serial' })
    assert.deepEqual(exchanged.unique, ['reference'])
  })
})

describe('a service with views', () => {
  const invoicesV1 = view(invoices, { rename: { reference: 'number' } })
  const resources = [customers, invoices, lines]
  const all = { v2: resources }

  it('serves a view in place of its collection', () => {
    const { versions } = service({ resources, versions: { v1: [customers, invoicesV1, lines], ...all } })
    assert.equal(versions.v1?.collections[1], invoicesV1)
  })

  it('refuses a view in `resources`', () => {
    const declare = () => service({ resources: [customers, invoicesV1] })
    assert.match(
      errorOf(declare),
      /^service: resources lists a view of \/invoices: list the collection, and the view in/,
    )
  })

  it('refuses a view of a collection that it does not list, and a collection together with its view', () => {
    const others = view(collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Title }) }), {})
    assert.match(
      errorOf(() => service({ resources, versions: { v1: [others], ...all } })),
      /^service: v1 may serve only collections that resources lists, and views of them$/,
    )
    assert.match(
      errorOf(() => service({ resources, versions: { v1: [customers, invoices, invoicesV1], ...all } })),
      /^service: v1 serves \/invoices twice: list the collection or one view of it$/,
    )
  })

  it('refuses new names that relations or `expand` already use', () => {
    const renamed = view(invoices, { rename: { reference: 'lines' } })
    assert.match(
      errorOf(() => service({ resources, versions: { v1: [customers, renamed, lines], ...all } })),
      /^service: \/lines refers to \/invoices, which has a member 'lines' already: .* \(in v1\)$/,
    )
    const expanding = view(invoices, { rename: { reference: 'expand' } })
    assert.match(
      errorOf(() => service({ resources, versions: { v1: [customers, expanding, lines], ...all } })),
      /defines the query parameter expand, .*\(in v1\)$/,
    )
  })

  it('has the expected field names in v1 and v2 for the example in docs/resources.md', async (t) => {
    const page = readFileSync(new URL('../../../docs/resources.md', import.meta.url), 'utf8')
    const blocks = [...page.matchAll(/```ts\n([^`]+)```/g)].map(([, code]) => String(code))
    const folder = mkdtempSync(join(tmpdir(), 'plinth-view-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'service.ts')
    const library = new URL('../../../bin/import.js', import.meta.url).href
    writeFileSync(file, String(blocks.find((code) => code.includes('view('))).replace("'plinth'", `'${library}'`))
    const { versions } = await loadDefinition(file)
    const [v1, v2] = ['v1', 'v2'].map((version) => versions[version]?.collections[0]?.declaration)
    assert.deepEqual(Object.keys(v1?.creation.properties ?? {}), ['number', 'total'])
    assert.deepEqual(Object.keys(v2?.creation.properties ?? {}), ['reference', 'total', 'currency'])
  })
})
