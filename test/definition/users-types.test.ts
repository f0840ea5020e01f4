import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  DefinitionError,
  Line,
  service as plainService,
  users as plainUsers,
  plinth,
  Title,
  Type,
} from '../../src/plinth.ts'

const body = Type.Object({ tenant: Line(1, 40), title: Title, size: Type.Integer() })
const notes = { path: '/notes', noun: 'note', body } as const
const fields = Type.Object({ tenant: Line(1, 40), level: Type.Integer() })

describe('the types of plinth({ users, claims })', () => {
  it('check `claims` against the declared fields, and access rules against the declared claims and roles', () => {
    const { collection } = plinth({
      users: { fields: Type.Object({ tenant: Line(1, 40) }), roles: ['member', 'auditor'], own: ['phone'] },
      claims: ({ user, client }) => ({ tenant: user?.tenant ?? client.labels.tenant }),
    })
    collection({ ...notes, access: (caller) => caller.is('auditor') || { tenant: caller.claims.tenant } })
    collection({ ...notes, access: (caller) => caller.is('admin') || caller.is('user') })
    collection({ ...notes, set: { tenant: ({ caller }) => caller.claims.tenant } })
    // @ts-expect-error an unknown role
    collection({ ...notes, access: (caller) => caller.is('auditer') })
    // @ts-expect-error an unknown claim
    collection({ ...notes, access: ({ claims }) => ({ tenant: claims.company }) })
    // @ts-expect-error a value of another type than the claim
    collection({ ...notes, access: ({ claims }) => ({ size: claims.tenant }) })
    // @ts-expect-error claims are not fields of the caller
    collection({ ...notes, access: (caller) => ({ tenant: caller.tenant }) })
  })

  it('reject `claims` that use undeclared fields or roles, or values that may be absent', () => {
    // @ts-expect-error an unknown field
    plinth({ users: { fields }, claims: ({ user }) => ({ tenant: user?.company }) })
    // @ts-expect-error a machine client has no user
    plinth({ users: { fields }, claims: ({ user }) => ({ tenant: user.tenant }) })
    // @ts-expect-error without fields of users, a caller has none
    plinth({ claims: ({ user }) => ({ tenant: user?.tenant }) })
    // @ts-expect-error roles alone do not give users fields
    plinth({ users: { roles: ['member'] }, claims: ({ user }) => ({ tenant: user?.tenant }) })
    plinth({
      users: { fields },
      claims: ({ user }) => {
        // @ts-expect-error the tenant may be undefined
        const tenant: string | null = user ? user.tenant : null
        return { tenant }
      },
    })
    plinth({
      users: { fields },
      claims: ({ client }) => {
        // @ts-expect-error the label may be undefined
        const tenant: string = client.labels.tenant
        return { tenant }
      },
    })
    // @ts-expect-error an undeclared role
    plinth({ users: { roles: ['member'] }, claims: ({ user }) => ({ isAuditor: user?.role === 'auditor' }) })
    // @ts-expect-error an undeclared role
    plinth({ users: { roles: ['member'] }, claims: ({ user }) => ({ isAuditor: user?.roles.includes('auditor') }) })
    // @ts-expect-error claims must be an object
    plinth({ users: { fields }, claims: ({ user }) => user?.tenant })
  })

  it('reject invalid fields, roles and options', () => {
    // @ts-expect-error an unknown field
    assert.throws(() => plinth({ users: { fields, own: ['company'] } }), DefinitionError)
    // @ts-expect-error only administrators may set roles
    assert.throws(() => plinth({ users: { fields, roles: ['member'], own: ['role'] } }), DefinitionError)
    // @ts-expect-error users may not change the address with which they log in
    assert.throws(() => plinth({ users: { fields, own: ['email'] } }), DefinitionError)
    // @ts-expect-error an unknown field
    assert.throws(() => plinth({ users: { fields, userinfo: ['company'] } }), DefinitionError)
    // @ts-expect-error the body must be an object schema
    assert.throws(() => plinth({ users: { fields: { tenant: Line(1, 40) } } }), DefinitionError)
    // @ts-expect-error an object instead of a list
    assert.throws(() => plinth({ users: { roles: 'member' } }), DefinitionError)
    // @ts-expect-error an unknown option
    assert.throws(() => plinth({ users: { rolls: ['member'] } }), DefinitionError)
  })

  it('allow `users` and `claims` to be omitted', () => {
    const { collection } = plinth({ users: { fields, roles: ['member'] } })
    collection({ ...notes, access: (caller) => caller.is('member') })
    // @ts-expect-error the definition has no claims
    collection({ ...notes, access: ({ claims }) => ({ tenant: claims.tenant }) })
    const { collection: plain, users, service } = plinth()
    plain({ ...notes, access: (caller) => caller.is('anything') })
    assert.equal(users, plainUsers)
    assert.equal(service({ resources: [plain(notes)] }).users, undefined)
  })
})

describe('plinth({ users })', () => {
  const errorsOf = (options: object): string => {
    try {
      plinth(options)
    } catch (error) {
      assert.ok(error instanceof DefinitionError, String(error))
      return error.message
    }
    return ''
  }
  const fieldsWith = (properties: object) => ({ users: { fields: Type.Object(properties as never) } })
  const refusals: [string, object, RegExp][] = [
    ['options that are not an object', null as never, /the options must be an object with users and claims/],
    ['an unknown option', { user: {} }, /plinth\(\) has no option user: did you mean users\?/],
    [
      'an unknown option of users',
      { users: { field: {} } },
      /users of plinth\(\) has no option field: did you mean fields\?/,
    ],
    ['users that are not an object', { users: true }, /users must be an object with fields, roles, own and userinfo/],
    ['claims that are not a function', { claims: {} }, /claims must be a function/],
    [
      'fields that are not an object schema',
      { users: { fields: Line(1, 40) } },
      /users\.fields must be created with Type\.Object\(\)/,
    ],
    [
      'a field that every user already has',
      fieldsWith({ phone: Title }),
      /users\.fields cannot include phone: users have such a field/,
    ],
    [
      'a field with a reserved name',
      fieldsWith({ role: Title }),
      /users\.fields cannot include role: the name is reserved/,
    ],
    ['a field named createdBy', fieldsWith({ createdBy: Title }), /\/users: the field name createdBy is reserved/],
    [
      'a field that cannot be stored',
      fieldsWith({ any: Type.Any() }),
      /\/users: the field any has a type that cannot be stored/,
    ],
    [
      'a field with a default',
      fieldsWith({ tenant: Type.String({ default: 'north' }) }),
      /tenant cannot have a default; let claims return one, as in user\?\.tenant \?\? 'none'/,
    ],
    [
      'a role that every service has',
      { users: { roles: ['admin'] } },
      /users\.roles cannot include admin: every service/,
    ],
    [
      'a role with capitals',
      { users: { roles: ['Auditor'] } },
      /users\.roles: 'Auditor' must be 1 to 40 characters a-z 0-9 -/,
    ],
    ['a duplicate role', { users: { roles: ['member', 'member'] } }, /users\.roles must be an array of distinct names/],
    [
      'role among the own fields',
      { users: { roles: ['member'], own: ['role'] } },
      /users\.own names role: users may write name/,
    ],
    [
      'userinfo that names an undeclared field',
      { users: { userinfo: ['role'] } },
      /users\.userinfo names role, but users\.fields has no/,
    ],
  ]
  for (const [what, options, message] of refusals) {
    it(`refuses ${what}`, () => assert.match(errorsOf(options), message))
  }

  const { collection, service, users } = plinth({ users: { fields } })
  const own = collection({ ...notes, access: () => true })

  it('serves the users in every version, whether listed or not', () => {
    const implied = service({ resources: [own], versions: { v1: [own], v2: [own] } })
    const listed = service({ resources: [own, users], versions: { v1: [own, users], v2: [own] } })
    const pathsOf = ({ versions }: typeof implied) =>
      Object.values(versions).map((version) => version.collections.map(({ declaration }) => declaration.path))
    assert.deepEqual(pathsOf(implied), [
      ['/users', '/notes'],
      ['/users', '/notes'],
    ])
    assert.deepEqual(pathsOf(listed), [
      ['/notes', '/users'],
      ['/users', '/notes'],
    ])
  })

  it('returns collections and users that only its own service() accepts; that service() rejects the package’s users', () => {
    assert.throws(() => plainService({ resources: [own] }), /\/notes: it needs the users of its plinth\(\)/)
    assert.throws(
      () => plinth({ users: {} }).service({ resources: [own] }),
      /pass it to the service\(\) that this plinth\(\) returned/,
    )
    assert.throws(
      () => service({ resources: [own, plainUsers] }),
      /list its users, or none, instead of those of the package/,
    )
    assert.throws(() => plainService({ resources: [users] }), /\/users: this path is reserved for the users who log in/)
  })
})
