import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { collection, DefinitionError, plinth, Ref, service, Title, Type } from '../../../src/plinth.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { appOn, testApp } from '../../support/app.ts'
import { forEachEngine, onSqlite } from '../../support/engines.ts'

const body = Type.Object({ tenant: Title, size: Type.Integer(), state: Type.Enum(['open', 'done']) })
const notes = { path: '/notes', noun: 'note', body } as const
const { collection: claimed } = plinth({ claims: ({ user, client }) => ({ tenant: user?.email ?? client.id }) })
const own = collection({ ...notes, access: ({ id }) => ({ createdBy: id }) })

const errorsOf = (options: object): string => {
  try {
    collection({ ...notes, ...options } as never)
  } catch (error) {
    assert.ok(error instanceof DefinitionError)
    return error.message
  }
  return ''
}

describe('the `access` option', () => {
  it('must be a function, { read, write } with two functions, or { of } with the name of a relation', () => {
    const expected = /access must be a function, \{ read, write \} with two functions, or \{ of: 'relation' \}/
    for (const access of [true, {}, { read: () => true }, { read: () => true, write: { tenant: 'north' } }, null]) {
      assert.match(errorsOf({ access }), expected)
    }
  })

  it('is rejected together with publicRead', () => {
    assert.match(errorsOf({ access: () => true, publicRead: true }), /publicRead and access contradict each other/)
  })

  it('reserves the field name createdBy', () => {
    const withCreator = { body: Type.Object({ createdBy: Title }) }
    assert.match(errorsOf({ ...withCreator, access: () => true }), /the field name createdBy is reserved/)
    assert.equal(errorsOf(withCreator), '')
  })

  it('with `of` must name a relation to another collection with rules; a chain has at most three relations', () => {
    const plain = collection({ ...notes, path: '/plain', noun: 'plain' })
    const tag = (to: Parameters<typeof Ref>[0], access: object, path = 'tags') =>
      collection({
        path: `/${path}`,
        noun: path,
        body: Type.Object({ noteId: Type.Optional(Ref(to)), size: Type.Integer() }),
        access,
      } as never)
    const refusal = (declare: () => unknown) => {
      try {
        declare()
      } catch (error) {
        assert.ok(error instanceof DefinitionError)
        return error.message
      }
      return ''
    }
    const of = { of: 'note' }
    assert.equal(
      refusal(() => tag(plain, of)),
      "/tags: access is that of 'note', but /plain has no access rules: declare them there",
    )
    assert.equal(
      refusal(() => tag(own, { of: 'noteId' })),
      "/tags: access is that of 'noteId', which is no reference of the body: use note",
    )
    assert.match(
      refusal(() => collection({ ...notes, access: of } as never)),
      /no reference of the body: add one with Ref/,
    )
    assert.match(
      refusal(() => tag('self', of)),
      /refers to the same collection: its rules would never end/,
    )
    assert.match(
      refusal(() => tag(own, { ...of, write: () => true })),
      /access names both of and write/,
    )
    const chain = [own]
    for (const path of ['first', 'second', 'third']) chain.push(tag(chain.at(-1) ?? own, of, path) as never)
    assert.match(
      refusal(() => tag(chain.at(-1) ?? own, of)),
      /after 4 steps: at most 3 can follow each other/,
    )
    service({ resources: chain })
  })

  it('with `of` is rejected if `resources` contains another collection with the path of the referenced one', () => {
    const other = collection({ ...notes, access: () => true })
    const body = Type.Object({ noteId: Ref(own) })
    const tags = collection({ path: '/tags', noun: 'tag', body, access: { of: 'note' } })
    assert.throws(
      () => service({ resources: [other, tags] }),
      /noteId of \/tags refers to another collection at \/notes than resources lists: use one/,
    )
  })

  it('is type-checked, with `of` and in conditions on relations', () => {
    const tag = { path: '/tags', noun: 'tag' } as const
    const body = Type.Object({
      noteId: Ref(own),
      otherId: Type.Optional(Ref(own)),
      upperId: Type.Optional(Ref('self')),
    })
    claimed({ ...tag, body, access: ({ claims }) => ({ note: { tenant: claims.tenant, createdBy: 'user:7' } }) })
    claimed({ ...tag, body, access: () => ({ any: [{ other: { size: { from: 1 } } }, { upper: { noteId: 1 } }] }) })
    claimed({ ...tag, body, access: { read: () => ({ note: { any: [{ size: 1 }] } }), write: () => false } })
    claimed({ ...tag, body, access: { of: 'note' } })
    // @ts-expect-error an unknown relation
    claimed({ ...tag, body, access: () => ({ notes: { size: 1 } }) })
    // @ts-expect-error an unknown field of the related row
    claimed({ ...tag, body, access: () => ({ note: { owner: 'north' } }) })
    // @ts-expect-error a value of another type
    claimed({ ...tag, body, access: () => ({ note: { size: 'large' } }) })
    // @ts-expect-error a value outside of the enumeration
    claimed({ ...tag, body, access: () => ({ other: { state: 'lost' } }) })
    // @ts-expect-error a condition cannot follow a second relation
    claimed({ ...tag, body, access: () => ({ upper: { note: { size: 1 } } }) })
    // @ts-expect-error a relation cannot be compared with a value
    claimed({ ...tag, body, access: () => ({ note: 7 }) })
    // @ts-expect-error an unknown field in a group
    claimed({ ...tag, body, access: () => ({ note: { any: [{ owner: 'north' }] } }) })
    // @ts-expect-error `of` needs the relation, not its field
    assert.throws(() => claimed({ ...tag, body, access: { of: 'noteId' } }), DefinitionError)
  })

  it('is type-checked: fields, operators, values and claims', () => {
    claimed({ ...notes, access: ({ claims }) => ({ tenant: claims.tenant }) })
    claimed({
      ...notes,
      access: (caller) => caller.is('admin') || { any: [{ size: { from: 1 } }, { createdBy: caller.id }] },
    })
    // @ts-expect-error an unknown field
    claimed({ ...notes, access: () => ({ owner: 'north' }) })
    // @ts-expect-error an unknown field in a group
    claimed({ ...notes, access: () => ({ any: [{ owner: 'north' }] }) })
    // @ts-expect-error an unknown claim
    claimed({ ...notes, access: ({ claims }) => ({ tenant: claims.company }) })
    // @ts-expect-error a value of another type than the claim
    claimed({ ...notes, access: ({ claims }) => ({ size: claims.tenant }) })
    // @ts-expect-error a value of another type
    claimed({ ...notes, access: () => ({ size: 'large' }) })
    // @ts-expect-error a value outside of the enumeration
    claimed({ ...notes, access: () => ({ state: 'lost' }) })
    // @ts-expect-error an unknown operator
    claimed({ ...notes, access: () => ({ size: { above: 1 } }) })
    // @ts-expect-error an operator that only text has
    claimed({ ...notes, access: () => ({ size: { prefix: '1' } }) })
    // @ts-expect-error a list of values needs the operator `in`
    claimed({ ...notes, access: () => ({ state: ['open'] }) })
    // @ts-expect-error rules cannot be asynchronous
    claimed({ ...notes, access: async () => true })
    // @ts-expect-error neither a boolean nor a condition
    claimed({ ...notes, access: () => 'tenant' })
    // @ts-expect-error both rules must be present
    assert.throws(() => claimed({ ...notes, access: { read: () => true } }), DefinitionError)
    // @ts-expect-error without plinth(), there are no claims
    collection({ ...notes, access: ({ claims }) => ({ tenant: claims.tenant }) })
    // @ts-expect-error claims must be an object
    plinth({ claims: () => 'north' })
  })
})

onSqlite((engine) => {
  describe('the OpenAPI document of a resource with access rules', () => {
    const app = appOn(engine, { definition: service({ resources: [own] }) })

    it('has createdBy only in responses, and PERMISSION_DENIED for POST but not for GET', async () => {
      const document = (await app.send({ url: '/openapi.json', scopes: null })).json()
      const { Note, NoteBody = {}, ...schemas } = document.components.schemas
      assert.equal(Note.properties.createdBy.readOnly, true, Object.keys(schemas).join())
      assert.ok(!Note.required.includes('createdBy'))
      assert.doesNotMatch(JSON.stringify(NoteBody), /createdBy/)
      assert.match(JSON.stringify(document.paths['/notes'].post), /PERMISSION_DENIED/)
      assert.doesNotMatch(JSON.stringify(document.paths['/notes'].get.responses), /PERMISSION_DENIED/)
    })
  })
})

forEachEngine((engine) => {
  it('{ createdBy: { null: true } } matches rows created before their resource had access rules', async () => {
    const db = await engine.database()
    const before = service({ resources: [collection(notes)] })
    await migrate(db, { tables: before.tables })
    const scopes = 'notes:read notes:write'
    const payload = { tenant: 'north', size: 1, state: 'open' }
    const old = await testApp(db, { definition: before })
    const created = await old.send({ method: 'POST', url: '/notes', payload, scopes })
    assert.equal(created.json().createdBy, undefined)
    await old.app.close()
    const after = service({
      resources: [
        collection({ ...notes, access: ({ id }) => ({ any: [{ createdBy: id }, { createdBy: { null: true } }] }) }),
      ],
    })
    await migrate(db, { tables: after.tables })
    const app = await testApp(db, { definition: after })
    await app.send({ method: 'POST', url: '/notes', payload, scopes })
    const listed = (await app.send({ url: '/notes', scopes })).json()
    assert.deepEqual(
      listed.map(({ createdBy }: { createdBy?: string }) => createdBy),
      [undefined, 'client:cli_test'],
    )
    assert.equal((await app.send({ url: '/notes/1', scopes })).json().createdBy, undefined)
    await app.app.close()
    await db.close()
    assert.deepEqual(app.faults, [])
  })
})

it('the examples of access rules in docs/resources.md load and define the scopes of invoices', async () => {
  const page = readFileSync(new URL('../../../docs/resources.md', import.meta.url), 'utf8')
  for (const title of ['## Access rules', '### Access rules along relations']) {
    const [, example = ''] = page.split(`\n${title}\n`)[1]?.split(/```(?:ts\n)?/) ?? []
    assert.match(example, /plinth\(/, title)
    const { default: definition } = await import(
      `data:text/javascript,${encodeURIComponent(
        example.replace("from 'plinth'", `from '${new URL('../../../src/plinth.ts', import.meta.url)}'`),
      )}`
    )
    assert.deepEqual(
      Object.keys(definition.scopes).filter((scope) => scope.startsWith('invoices')),
      ['invoices:read', 'invoices:write'],
    )
  }
})
