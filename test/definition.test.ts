import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type TSchema, Type } from 'typebox'
import { books } from '../src/catalog/books.ts'
import { builtIn } from '../src/catalog/service.ts'
import { users } from '../src/catalog/users.ts'
import { isDefinition, service } from '../src/definition/service.ts'
import { Line } from '../src/http/text-rules.ts'
import { collection } from '../src/resources/collection.ts'
import { Name, Price } from '../src/resources/field-types.ts'
import { DefinitionError } from '../src/startup-errors.ts'

const body = Type.Object({
  title: Line(1, 100),
  done: Type.Optional(Type.Boolean()),
  long: Type.Optional(Type.String()),
})
const declared = { path: '/notes' as const, noun: 'note', body }

/** Authors may write JavaScript, so any invalid input must be rejected with a message. */
const refused = (options: object) => () => collection({ ...declared, ...options } as never)
const says = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof DefinitionError, String(error))
  assert.equal(error.exitCode, 2)
  assert.match(error.message, message)
  return true
}

describe('collection', () => {
  const mistakes: [what: string, options: object, message: RegExp][] = [
    ['a malformed path', { path: 'notes' }, /path must be one lower-case segment such as '\/notes'.*not 'notes'/],
    ['two path segments', { path: '/a/b' }, /one lower-case segment/],
    ['a missing path', { path: undefined }, /one lower-case segment .*not undefined/],
    ...['/api', '/oauth', '/docs', '/v1', '/v22', '/livez', '/reports', '/webhooks', '/tables'].map(
      (path): [string, object, RegExp] => [
        `the path ${path}`,
        { path },
        /this path is reserved for the service itself/,
      ],
    ),
    ['a malformed noun', { noun: 'A note' }, /noun must be the singular in camelCase, such as 'note', not 'A note'/],
    ['the noun report', { noun: 'report' }, /the noun 'report' is reserved for the service itself/],
    ['an unknown operation', { operations: ['list', 'drop'] }, /operations cannot include drop; use list, create/],
    [
      'a misspelt option',
      { filter: ['topic'] },
      /^\/notes: collection\(\) has no option filter: did you mean filters\?$/,
    ],
    [
      'an unknown option',
      { colour: 'red' },
      /has no option colour: use one of path, noun, ids, operations, body, .*links, access, writeOnly, immutable, rules, set, defaults, locked, computed, derived, migrate, table, columns, keepDeleted$/,
    ],
    ['an empty list of operations', { operations: [] }, /operations must name at least one/],
    ['a missing body', { body: undefined }, /body must be created with Type\.Object\(\)/],
    ['a body that is not an object', { body: Type.String() }, /body must be created with Type\.Object\(\)/],
    ['an empty body', { body: Type.Object({}) }, /body must have at least one field/],
    ...['id', 'revision', 'sharesSecond', 'createdAt', 'updatedAt', '_links', 'view', 'toString', 'constructor'].map(
      (name): [string, object, RegExp] => [
        `the field name ${name}`,
        { body: Type.Object({ [name]: Type.String() }) },
        new RegExp(`the field name ${name} is reserved`),
      ],
    ),
    ['the field name isbnURL', { body: Type.Object({ isbnURL: Type.String() }) }, /isbnURL must be camelCase/],
    ['the field name snake_case', { body: Type.Object({ a_b: Type.String() }) }, /a_b must be camelCase/],
    [
      'the field title together with titleKey',
      { body: Type.Object({ title: Line(1, 9), titleKey: Line(1, 9) }) },
      /titleKey is reserved for the case-folded text of the field title/,
    ],
    [
      'names too long for an index',
      { path: `/${'a'.repeat(30)}`, body: Type.Object({ ['b'.repeat(30)]: Line(1, 9) }) },
      /too long together/,
    ],
    [
      'a nullable type',
      { body: Type.Object({ a: Type.Union([Type.String(), Type.Null()]) }) },
      /the field a has a type that cannot be stored: .*Type\.Optional/,
    ],
    [
      'a field of unknown type',
      { body: Type.Object({ a: Type.Unknown() }) },
      /the field a has a type that cannot be stored/,
    ],
    ['an unknown filter', { filters: ['x'] }, /filters names 'x', but body has no such field/],
    ['an unknown range', { ranges: ['x'] }, /ranges names 'x'/],
    ['an unknown search', { search: ['x'] }, /search names 'x'/],
    ['an unknown sort', { sorts: ['x'] }, /sorts names 'x'/],
    ['an unknown unique field', { unique: ['x'] }, /unique names 'x'/],
    ['an unknown hidden field', { hides: { fields: ['x'], unless: () => true } }, /hides\.fields names 'x'/],
    [
      'a filter by a hidden field (T-API-04)',
      { filters: ['title'], hides: { fields: ['title'], unless: () => true } },
      /filters cannot include title: it is hidden/,
    ],
    [
      'a hidden field in lists',
      { listed: ['title'], hides: { fields: ['title'], unless: () => true } },
      /listed cannot include title: it is hidden/,
    ],
    [
      'hidden fields in a public resource',
      { publicRead: true, hides: { fields: ['title'], unless: () => true } },
      /hides cannot be combined with publicRead/,
    ],
    ['a filter that is not in an array', { filters: 'title' }, /^\/notes: filters must be an array, not 'title'$/],
    ['a unique field that is not in an array', { unique: 'title' }, /^\/notes: unique must be an array, not 'title'$/],
    ['defaults in an array', { defaults: [] }, /^\/notes: defaults must be an object, not array$/],
    ['an unknown listed field', { listed: ['id', 'x'] }, /listed names 'x'/],
    ['a range on text', { ranges: ['title'] }, /ranges cannot include title: it is not a number, date or instant/],
    ['a search in a boolean', { search: ['done'] }, /search cannot include done: it is not free text/],
    [
      'a sort by an optional field',
      { body: Type.Object({ n: Type.Optional(Type.Integer()) }), sorts: ['n'] },
      /sorts cannot include n: it is optional/,
    ],
    [
      'a sort by optional text that is unique',
      { body: Type.Object({ code: Type.Optional(Line(1, 9)) }), sorts: ['code'], unique: ['code'] },
      /sorts cannot include code: it is optional; use required fields, or text that is not unique/,
    ],
    [
      'a filter on unbounded text',
      { filters: ['long'] },
      /filters cannot include long without a maxLength of at most 500/,
    ],
    [
      'a filter on an object',
      { body: Type.Object({ o: Type.Object({}) }), filters: ['o'] },
      /filters cannot include o: objects and arrays/,
    ],
    [
      'a filter with a reserved name',
      { body: Type.Object({ limit: Type.Integer() }), filters: ['limit'] },
      /query parameter limit twice/,
    ],
    [
      'two parameters with the same name',
      { body: Type.Object({ minSize: Type.Integer(), size: Type.Integer() }), filters: ['minSize'], ranges: ['size'] },
      /query parameter minSize twice/,
    ],
    ['another resource’s scope', { scopes: { 'users:write': 'x' } }, /scopes: 'users:write' must start with 'notes:'/],
  ]
  const wrongDefaults: [what: string, field: TSchema, place: string][] = [
    ['of the wrong type', Type.Integer({ default: '3' }), 'field'],
    ['that breaks a rule', Type.Integer({ default: 7, maximum: 5 }), 'field'],
    ['that is not one of the values', Type.Enum(['open', 'done'], { default: 'lost' }), 'field'],
    ['with surrounding spaces, which are not stored', Type.String({ default: ' x ' }), 'field'],
    ['of null', Type.Optional(Type.String({ default: null })), 'field'],
    ['inside an object', Type.Object({ city: Type.String({ default: 1 }) }), 'field.city'],
    ['inside an array', Type.Array(Type.Object({ city: Type.String({ default: 1 }) })), 'field[].city'],
  ]
  for (const [what, field, place] of wrongDefaults) {
    const message = `/notes: the default of ${place} is not valid for its type`
    it(`rejects a default ${what}`, () => {
      assert.throws(refused({ body: Type.Object({ name: Type.String(), field }) }), (error: Error) => {
        assert.ok(error instanceof DefinitionError && error.message.includes(message), String(error))
        return true
      })
    })
  }

  it('rejects a default for a unique field', () => {
    const code = Type.String({ maxLength: 9, default: 'x' })
    const options = { body: Type.Object({ name: Type.String(), code }), unique: ['code'] }
    assert.throws(refused(options), says(/unique cannot include code: several rows would have its default/))
  })

  for (const [what, options, message] of mistakes) {
    it(`rejects ${what}`, () => assert.throws(refused(options), says(message)))
  }

  it('reports all errors at once, each with its path', () => {
    const options = { noun: '', filters: ['x'], sorts: ['y'] }
    assert.throws(refused(options), says(/^\/notes: noun .*\n\/notes: filters .*\n\/notes: sorts .*$/))
  })

  it('returns an immutable declaration', () => {
    const { declaration } = collection(declared)
    assert.throws(() => Object.assign(declaration, { path: '/others' }), TypeError)
    assert.deepEqual(declaration.operations, ['list', 'create', 'read', 'replace', 'patch', 'remove'])
    assert.equal(declaration.table, 'resource_notes')
    assert.deepEqual(declaration.scopes, {
      'notes:read': 'See notes',
      'notes:write': 'Create, change and delete notes',
    })
  })
})

describe('service', () => {
  const notes = collection(declared)
  const named = Type.Object({ name: Name })
  const wrong: [what: string, options: unknown, message: RegExp][] = [
    ['missing options', undefined, /resources must be a non-empty array of collection\(\) results/],
    ['an empty list of resources', { resources: [] }, /a non-empty array/],
    [
      'a value that is not a resource',
      { resources: [{ path: '/notes' }] },
      /a non-empty array of collection\(\) results/,
    ],
    [
      'two resources with the same path',
      { resources: [notes, collection({ ...declared, noun: 'other' })] },
      /the path \/notes is declared twice/,
    ],
    [
      'two resources with the same noun',
      { resources: [notes, collection({ ...declared, path: '/others' })] },
      /the noun 'note' is declared twice/,
    ],
    ...['users', 'products', 'books'].map((name): [string, unknown, RegExp] => [
      `the path /${name} for another resource`,
      { resources: [collection({ ...declared, path: `/${name}` })] },
      new RegExp(`^/${name}: .*import \\{ ${name} \\} from 'plinth', or choose another path$`),
    ]),
    [
      'a custom resource at /users, even with every field of the built-in one',
      {
        resources: [
          notes,
          collection({ path: '/users', noun: 'user', body: users.declaration.body, sorts: ['name'] } as never),
        ],
      },
      /^\/users: this path is reserved for the users who log in: import/,
    ],
    ...[
      { what: 'a missing price', body: Type.Object({ name: Name }) },
      { what: 'an optional price', body: Type.Object({ name: Name, price: Type.Optional(Price) }) },
      { what: 'a price that is text', body: Type.Object({ name: Name, price: Line(1, 9) }) },
    ].map(({ what, body }): [string, unknown, RegExp] => [
      `products with ${what}`,
      { resources: [collection({ path: '/products', noun: 'product', body: body as typeof named, search: ['name'] })] },
      /^\/products: every row of its table has price: declare them as the built-in products does \(required/,
    ]),
    [
      'products without a filter or search by name',
      {
        resources: [
          collection({ path: '/products', noun: 'product', body: Type.Object({ name: Name, price: Price }) }),
        ],
      },
      /^\/products: every row of its table has name: /,
    ],
    ['versions without v1', { resources: [notes], versions: { v2: [notes] } }, /versions must include v1/],
    ['a version with an invalid name', { resources: [notes], versions: { v1: [notes], beta: [notes] } }, /not 'beta'/],
    [
      'a version with an unlisted resource',
      { resources: [notes], versions: { v1: [collection(declared)] } },
      /v1 may serve only collections that resources lists/,
    ],
    ['a version that is not a list', { resources: [notes], versions: { v1: 'notes' } }, /v1 may serve only/],
    ['a version that is null', { resources: [notes], versions: { v1: [notes], v2: null } }, /v2 may serve only/],
    [
      'an unknown option in a version',
      { resources: [notes], versions: { v1: [notes], v2: { resources: [notes], errors: 'short' } } },
      /v2 has no option 'errors'; use resources, lists, deprecation or unknownParameters/,
    ],
    [
      'an unknown value in a version',
      { resources: [notes], versions: { v1: [notes], v2: { resources: [notes], lists: 'map' } } },
      /lists of v2 must be 'array' or 'object'/,
    ],
    [
      'a v1 that violates the contract',
      { resources: [notes], versions: { v1: { resources: [notes], lists: 'object' } } },
      /lists of v1 must be 'array', as the API contract requires/,
    ],
    [
      'a report with a name in use',
      { resources: [notes], reports: [{ name: 'notes' }] },
      /the report type notes is declared twice/,
    ],
    [
      'a report with a malformed name',
      { resources: [notes], reports: [{ name: 'A b' }] },
      /the report type 'A b' must/,
    ],
  ]
  for (const [what, options, message] of wrong) {
    it(`rejects ${what}`, () => assert.throws(() => service(options as never), says(message)))
  }

  it('lets collections sort by required filter fields, except booleans, and by optional text in `sorts`', () => {
    const { declaration } = collection({
      ...{ path: '/items', noun: 'item', filters: ['kind', 'done', 'note'], sorts: ['label'] },
      body: Type.Object({
        ...{ kind: Line(1, 9), done: Type.Boolean(), note: Type.Optional(Line(1, 9)) },
        label: Type.Optional(Line(1, 9)),
      }),
    })
    assert.deepEqual(declaration.sorts, ['id', 'label', 'kind', 'createdAt', 'updatedAt'])
    assert.deepEqual(declaration.blank, ['label'])
  })

  it('accepts the built-in resources and a custom one that matches the products table', () => {
    const body = Type.Object({ name: Name, price: Price, stock: Type.Optional(Type.Integer()) })
    const stocked = collection({ path: '/products', noun: 'product', body, search: ['name'] })
    const { tables } = service({ resources: [notes, users, books, stocked] })
    assert.deepEqual(
      tables.map(({ name }) => name),
      ['resource_notes', 'users', 'books', 'products'],
    )
  })

  it('returns a value that isDefinition accepts; isDefinition rejects other values', () => {
    const definition = service({ resources: [notes] })
    assert.ok(isDefinition(definition) && isDefinition(builtIn) && Object.isFrozen(definition))
    for (const other of [{ ...definition.versions }, null, 'x', { resources: [notes] }]) assert.ok(!isDefinition(other))
  })

  it('has only the built-in scopes and events and those of its resources', () => {
    const { scopes, events } = service({ resources: [notes] })
    assert.deepEqual(
      Object.keys(scopes).filter((scope) => /^(notes|users|products|books):/.test(scope)),
      ['notes:read', 'notes:write'],
    )
    assert.deepEqual(
      Object.keys(events).filter((event) => !/^(report|webhook)\./.test(event)),
      ['note.created', 'note.updated', 'note.deleted'],
    )
    assert.equal(events['note.created']?.audience, 'notes:read')
  })

  it('keeps the scopes of the first release for the built-in resources', () => {
    assert.deepEqual(
      Object.keys(builtIn.scopes).join(' '),
      [
        'openid profile email offline_access reports:read reports:write webhooks:read webhooks:write',
        'users:read users:read:full users:write products:write books:write audit:read admin',
      ].join(' '),
    )
  })

  it('serves each version under its prefix, and v1 also under paths without a prefix', () => {
    const tags = collection({ path: '/tags', noun: 'tag', body })
    const { versions } = service({ resources: [notes, tags], versions: { v1: [notes], v2: [notes, tags] } })
    const served = Object.values(versions).map(({ prefixes, collections }) => [prefixes, collections.length])
    assert.deepEqual(served, [
      [['', '/v1'], 1],
      [['/v2'], 2],
    ])
  })

  it('serves all resources in v1 and v2 by default, with the list and deprecation formats of each version', () => {
    const differences = ({ versions }: ReturnType<typeof service>) =>
      Object.entries(versions).map(([name, { lists, deprecation, collections }]) => [
        ...[name, lists, deprecation, collections.length],
      ])
    assert.deepEqual(differences(service({ resources: [notes] })), [
      ['v1', 'array', 'true', 1],
      ['v2', 'object', 'date', 1],
    ])
    const v3 = { resources: [notes], lists: 'array' } as const
    assert.deepEqual(differences(service({ resources: [notes], versions: { v3, v1: [notes] } })), [
      ['v1', 'array', 'true', 1],
      ['v3', 'array', 'date', 1],
    ])
  })
})
