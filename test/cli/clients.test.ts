import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import {
  commandRunner,
  ended,
  killAll,
  newPlace,
  plinth,
  project,
  requestToken,
  serving,
  succeeding,
  visit,
} from './support.ts'

const { dataDir, port, env, remove } = await newPlace()
const commands = commandRunner(env)
after(() => {
  commands.close()
  killAll()
  remove()
})

/** Runs a command that must succeed; returns its output. */
async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await commands.run(args)
  assert.deepEqual([code, stderr], [0, ''])
  return stdout
}

describe('plinth migrate', () => {
  it('migrates a new database, then finds nothing to do', async () => {
    assert.match(await succeeding(env)('migrate'), /^Ran 0001\S*(, \d{4}\S*)+\n$/)
    assert.equal(await run('migrate'), 'The schema is up to date\n')
  })
})

describe('plinth clients', () => {
  it('`create` and `revoke` take effect while the service runs; `list` shows the client’s state', async () => {
    const service = await serving(dataDir, port, env)
    const create = ['clients', 'create', '--name', 'Partner', '--scope', 'reports:read products:write']
    const created = await succeeding(env)(...create)
    const [, id, secret] = /^client_id {6}(\S+)\nclient_secret {2}(\S+)\n$/.exec(created) ?? []
    const response = await requestToken(dataDir, port, id as string, secret as string)
    assert.equal(response.status, 200)
    assert.deepEqual(response.json().scope.split(' ').sort(), ['products:write', 'reports:read'])
    const headers = { authorization: `Bearer ${response.json().access_token}` }
    assert.equal((await visit(dataDir, `https://localhost:${port}/api/reports`, { headers })).status, 200)

    assert.match(
      await run('clients', 'list'),
      new RegExp(`^${id} {2}active {2}\\S+ {2}Partner\n {4}reports:read `, 'm'),
    )
    const listed = JSON.parse(await run('clients', 'list', '--json'))
    const partner = listed.find((client: { id: string }) => client.id === id)
    assert.deepEqual([partner.name, partner.grants, partner.secretHash], ['Partner', ['client_credentials'], undefined])

    assert.equal(await run('clients', 'revoke', id as string), `Revoked ${id}\n`)
    assert.match(await run('clients', 'list'), new RegExp(`^${id} {2}revoked \\S+ `, 'm'))
    const refused = await requestToken(dataDir, port, id as string, secret as string)
    assert.deepEqual([refused.status, refused.json().error], [401, 'invalid_client'])
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 0)
  })

  const refusals: [string, string[], RegExp][] = [
    ['an unknown client', ['revoke', 'cli_nobody'], /^plinth: There is no active client cli_nobody\n$/],
    [
      'an unknown scope',
      ['create', '--name', 'x', '--scope', 'all:things'],
      /^plinth: --scope must not contain all:things/,
    ],
    [
      'a client without a name',
      ['create', '--scope', 'admin'],
      /^plinth: Pass a name for the client: --name <name>\n$/,
    ],
  ]
  for (const [what, args, message] of refusals) {
    it(`exit code 1 and the reason for ${what}`, async () => {
      const { code, stderr } = await commands.run(['clients', ...args])
      assert.equal(code, 1)
      assert.match(stderr, message)
    })
  }
})

describe('plinth clients create', () => {
  const silent: [what: string, args: string[]][] = [
    ['a machine client without scopes', []],
    ['an app without scopes', ['--public', '--redirect-uri', 'com.example.app:/cb']],
    ['an empty list of scopes', ['--scope', ' , ']],
  ]
  for (const [what, args] of silent) {
    it(`exit code 2 and the available scopes for ${what}`, async () => {
      const { code, stdout, stderr } = await commands.run(['clients', 'create', '--name', 'Silent', ...args])
      assert.deepEqual([code, stdout], [2, ''])
      const [first, ...lines] = stderr.trimEnd().split('\n')
      assert.equal(first, 'plinth: Pass --scope "<scopes>". The scopes of this service are:')
      const listed = lines.map((line) => /^ {4}(\S+) {2}\S/.exec(line)?.[1])
      assert.deepEqual(listed, Object.keys(builtIn.scopes))
    })
  }

  it('lists the scopes of the definition that PLINTH_DEFINITION specifies', async () => {
    const PLINTH_DEFINITION = join(project, 'examples', 'notes', 'service.ts')
    const { code, stderr } = await commands.run(['clients', 'create', '--name', 'Silent'], '', { PLINTH_DEFINITION })
    assert.equal(code, 2)
    assert.match(stderr, /^ {4}notes:read {2}See notes$/m)
    assert.doesNotMatch(stderr, /users:write/)
  })

  it('grants exactly the given scopes, including admin, and registers no client after an error', async () => {
    const app = ['--public', '--redirect-uri', 'com.example.app:/cb']
    const create = (scope: string) => commands.run(['clients', 'create', '--name', scope, '--scope', scope, ...app])
    for (const scope of ['openid,reports:read', 'openid admin']) assert.equal((await create(scope)).code, 0)
    const rejected = await create('*')
    assert.equal(rejected.code, 1)
    assert.match(rejected.stderr, /^plinth: --scope must not contain \*;/)
    const listed: { name: string; scopes: string[] }[] = JSON.parse(await run('clients', 'list', '--json'))
    const scopesOf = (name: string) => listed.filter((client) => client.name === name).map(({ scopes }) => scopes)
    assert.deepEqual(scopesOf('openid,reports:read'), [['openid', 'reports:read']])
    assert.deepEqual(scopesOf('openid admin'), [['openid', 'admin']])
    assert.deepEqual([scopesOf('Silent'), scopesOf('*')], [[], []])
  })

  it('sets introspectsOthers with --introspects-others and clears it with --no-introspects-others', async () => {
    const text = await run('clients', 'create', '--name', 'Gateway', '--scope', 'reports:read', '--introspects-others')
    const id = /^client_id {6}(\S+)$/m.exec(text)?.[1] as string
    const introspectsOthers = async () => JSON.parse(await run('clients', 'show', id)).introspectsOthers
    assert.equal(await introspectsOthers(), true)
    await run('clients', 'update', id, '--no-introspects-others')
    assert.equal(await introspectsOthers(), false)
  })

  it('sets limits with --rate and --quota and resets them with --no-rate and --no-quota; rejects invalid limits', async () => {
    const create = ['clients', 'create', '--name', 'Busy', '--scope', 'reports:read']
    const id = /^client_id {6}(\S+)$/m.exec(await run(...create, '--rate', '600/60'))?.[1] as string
    const limits = async () => {
      const { rate, quota } = JSON.parse(await run('clients', 'show', id))
      return [rate, quota]
    }
    assert.deepEqual(await limits(), ['600/60', null])
    await run('clients', 'update', id, '--quota', '5000')
    assert.deepEqual(await limits(), ['600/60', 5_000])
    await run('clients', 'update', id, '--no-rate', '--no-quota')
    assert.deepEqual(await limits(), [null, null])
    const refused = async (...options: string[]) => (await commands.run(['clients', 'update', id, ...options])).stderr
    assert.match(await refused('--rate', 'fast'), /rate must be calls\/seconds, such as 600\/60/)
    assert.match(await refused('--quota', 'many'), /quota must be a whole number/)
  })

  it('sets labels with --label and removes them with --remove-label; rejects invalid labels', async () => {
    const create = ['clients', 'create', '--name', 'Import', '--scope', 'reports:read']
    const text = await run(...create, '--label', 'tenant=north', 'note=a=b')
    const id = /^client_id {6}(\S+)$/m.exec(text)?.[1] as string
    const labels = async () => JSON.parse(await run('clients', 'show', id)).labels
    assert.deepEqual(await labels(), { tenant: 'north', note: 'a=b' })
    await run('clients', 'update', id, '--name', 'Renamed')
    await run('clients', 'update', id, '--label', 'tenant=south', '--remove-label', 'note')
    assert.deepEqual(await labels(), { tenant: 'south' })
    const refused = async (label: string) => (await commands.run([...create, '--label', label])).stderr
    assert.match(await refused('tenant'), /--label must be a name and a value, such as tenant=north, not tenant\n/)
    assert.match(await refused('Tenant=north'), /--label must have keys of 1 to 40 characters/)
  })
})

describe('plinth', () => {
  const help: [string[], RegExp][] = [
    [[], /serve .*\n[\s\S]*migrate .*\n[\s\S]*demo .*\n[\s\S]*settings .*\n[\s\S]*clients .*\n/],
    [['serve'], /Start the service/],
    [['migrate'], /database schema/],
    [['demo'], /a token, a report, a signed webhook, a download/],
    [['settings'], /every setting/],
    [['clients'], /create .*\n[\s\S]*list .*\n[\s\S]*revoke /],
    [['clients', 'create'], /--name <name>[\s\S]*--scope <scopes>/],
    [['clients', 'list'], /--json/],
    [['clients', 'revoke'], /<id>/],
    [['users'], /invite .*\n[\s\S]*set-password .*\n[\s\S]*list /],
    [['users', 'invite'], /<email>[\s\S]*--name <name>[\s\S]*--admin/],
    [['users', 'set-password'], /standard input/],
    [['users', 'list'], /--json/],
  ]
  it('describes commands with --help, even if a setting is invalid', async () => {
    const invalid = { PLINTH_PORT: 'none' }
    const runs = await Promise.all(help.map(([args]) => commands.run([...args, '--help'], '', invalid)))
    for (const [at, { code, stdout, stderr }] of runs.entries()) {
      const [args, expected] = help[at] as (typeof help)[0]
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, new RegExp(`^Usage: ${['plinth', ...args].join(' ')}`))
      assert.match(stdout, expected)
    }
  })

  it('exit code 1 for an unknown command', async () => {
    const { code, stderr } = await ended(plinth(['server'], env))
    assert.equal(code, 1)
    assert.match(stderr, /unknown command 'server'/)
  })

  it('`settings` lists all settings with their values, and hides secrets', async () => {
    const { stdout } = await ended(
      plinth(['settings'], { ...env, PLINTH_BOOTSTRAP_CLIENT_ID: 'b', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'hunter2' }),
    )
    assert.match(stdout, new RegExp(`^PLINTH_PORT .*\n += ${port}$`, 'm'))
    assert.match(stdout, /^PLINTH_BOOTSTRAP_CLIENT_SECRET .*\n += …$/m)
    assert.doesNotMatch(stdout, /hunter2/)
  })
})
