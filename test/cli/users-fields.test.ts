import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { commandRunner, ended, killAll, newPlace, plinth, project } from './support.ts'

const folder = mkdtempSync(join(tmpdir(), 'plinth-users-'))
const { dataDir, env, remove } = await newPlace()
const commands = commandRunner(env)
after(() => {
  commands.close()
  killAll()
  remove()
  rmSync(folder, { recursive: true, force: true })
})

const file = join(folder, 'service.ts')
writeFileSync(
  file,
  `import { Decimal, Instant, Line, plinth, Type } from '${pathToFileURL(join(project, 'bin', 'import.js')).href}'
   const { service } = plinth({
     users: {
       fields: Type.Object({ tenant: Line(1, 40), level: Type.Integer(), isPaid: Type.Boolean(), credit: Decimal(9, 2), since: Instant }),
       roles: ['member', 'auditor'],
     },
   })
   export default service({ resources: [] })`,
)

const users = (args: string[], definition: string | null = file) =>
  commands.run(['users', ...args], '', { ...(definition && { PLINTH_DEFINITION: definition }) })
const rowOf = (email: string) => {
  const db = new DatabaseSync(join(dataDir, 'plinth.db'), { readOnly: true })
  const fields = 'tenant, tenant_key, level, is_paid, credit, since, role, revision'
  const row = db.prepare(`select ${fields} from users where email = ?`).get(email)
  const entries = db.prepare('select event, details from audit_entries order by sequence').all()
  db.close()
  return { row: { ...row }, entries: entries.map(({ event, details }) => [event, JSON.parse(String(details))]) }
}
const none = { tenant: null, tenant_key: null, level: null, is_paid: null, credit: null, since: null, role: null }

describe('plinth users with a definition that adds fields and roles', () => {
  it('`invite` adds a user with the values of --field and --role', async () => {
    const values = ['tenant=North', 'level=3', 'isPaid=true', 'credit=12.5', 'since=2026-03-01T12:00:00+01:00']
    const args = ['users', 'invite', 'ada@a.example', '--name', 'Ada', '--role', 'member', '--field', ...values]
    const invited = await ended(plinth(args, { ...env, PLINTH_DEFINITION: file }))
    assert.deepEqual([invited.code, invited.stderr], [0, ''])
    const { row, entries } = rowOf('ada@a.example')
    assert.deepEqual(row, {
      ...{ tenant: 'North', tenant_key: 'north', level: 3, is_paid: 1, credit: 1_250, role: 'member', revision: 1 },
      since: '2026-03-01T11:00:00.000Z',
    })
    const fields = ['tenant', 'level', 'isPaid', 'credit', 'since', 'role']
    assert.deepEqual(entries, [
      ['invitation.created', {}],
      ['user.updated', { fields, role: 'member' }],
    ])
  })

  it('`update` changes and removes fields and roles, and increments the revision', async () => {
    const changed = await users(['update', 'ADA@a.example', '--role', 'auditor', '--field', 'level=', 'tenant=south'])
    assert.deepEqual([changed.code, changed.stdout], [0, 'Changed ada@a.example\n'])
    const { row } = rowOf('ada@a.example')
    assert.deepEqual([row.tenant, row.level, row.role, row.revision], ['south', null, 'auditor', 2])
    const removed = await users(['update', 'ada@a.example', '--no-role'])
    assert.deepEqual([removed.code, rowOf('ada@a.example').row.role], [0, null])
  })

  it('`list` prints both the built-in and the declared role', async () => {
    assert.equal((await users(['invite', 'ada@a.example', '--admin', '--role', 'auditor'])).code, 0)
    const { stdout, stderr } = await users(['list'])
    assert.equal(stderr, '')
    assert.match(stdout, /^\d+ {2}admin, auditor {2}invited {2}ada@a\.example {2}Ada$/m)
    const [listed] = JSON.parse((await users(['list', '--json'])).stdout)
    assert.deepEqual([listed.role, listed.declaredRole], ['admin', 'auditor'])
  })

  it('`invite` without --field and --role leaves the row of an existing user unchanged', async () => {
    assert.equal((await users(['invite', 'eve@a.example', '--name', 'Eve'])).code, 0)
    assert.equal((await users(['invite', 'eve@a.example'])).code, 0)
    assert.deepEqual(rowOf('eve@a.example').row, { ...none, revision: 1 })
  })

  const update = ['update', 'eve@a.example']
  const refusals: [string, string[], RegExp][] = [
    [
      'an unknown field',
      [...update, '--field', 'region=eu'],
      /--field cannot set region: the fields are tenant, level,/,
    ],
    ['a built-in field', [...update, '--field', 'email=x@a.example'], /--field cannot set email: the fields are/],
    ['an unknown role', [...update, '--role', 'admin'], /--role cannot be admin: the roles are member, auditor/],
    ['a value of the wrong type', [...update, '--field', 'level=high'], /The level must be integer/],
    ['a value that breaks a rule', [...update, '--field', `tenant=${'x'.repeat(41)}`], /The tenant must not have more/],
    [
      'a field without a value',
      [...update, '--field', 'tenant'],
      /--field must be a name and a value, such as tenant=north, not tenant/,
    ],
    ['an update without changes', update, /Pass what to change: --field or --role/],
    ['an unknown user', ['update', 'nobody@a.example', '--no-role'], /There is no user nobody@a\.example/],
  ]
  for (const [what, args, message] of refusals) {
    it(`exit code 1 and the reason for ${what}`, async () => {
      const { code, stdout, stderr } = await users(args)
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, message)
    })
  }

  it('exit code 1 and an error for fields and roles that the definition does not declare', async () => {
    const field = await users([...update, '--field', 'tenant=north'], null)
    assert.deepEqual([field.code, field.stdout], [1, ''])
    assert.match(field.stderr, /--field cannot set tenant: this service declares none in plinth\(\{ users \}\)/)
    const role = await users([...update, '--role', 'member'], null)
    assert.deepEqual([role.code, role.stdout], [1, ''])
    assert.match(role.stderr, /--role cannot be member: this service declares none/)
  })
})
