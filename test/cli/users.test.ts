import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import {
  cleanEnvironment,
  commandRunner,
  ended,
  eventually,
  killAll,
  newPlace,
  project,
  serving,
  visit,
} from './support.ts'

const { dataDir, port, env, remove } = await newPlace()
const commands = commandRunner(env)
after(() => {
  commands.close()
  killAll()
  remove()
})

/** Runs `plinth` with this standard input. */
function run(args: string[], input = '') {
  const options = { env: cleanEnvironment(env), input, encoding: 'utf8' as const, timeout: 20_000 }
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(project, 'bin', 'plinth.js'), ...args], options)
  return { code: status, stdout, stderr }
}

const good = 'tundra violin marble'

describe('plinth users', () => {
  it('`invite` works while the service runs, and prints a link that can be used once', async () => {
    const service = await serving(dataDir, port, env)
    const printed = / Administrator admin@localhost\n {2}Password {6}\S{20} {3}\(shown only now\)/
    await eventually('the administrator is printed', async () => printed.test(service.stdout()))
    const { code, stdout } = run(['users', 'invite', 'ada@example.com', '--name', 'Ada Lovelace'])
    assert.equal(code, 0)
    const [, url = ''] = /^(https:\S+)\nworks once, until \S+Z\n$/.exec(stdout) ?? []
    assert.ok(url.startsWith(`https://localhost:${port}/oauth/invitation?token=`))
    const page = await visit(dataDir, url)
    assert.match(page.text, /Welcome, <strong>Ada Lovelace<\/strong>/)
    const form = { token: new URL(url).searchParams.get('token') as string, password: good, repeated: good }
    const send = () =>
      visit(dataDir, `https://localhost:${port}/oauth/invitation`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams(form).toString(),
      })
    assert.match((await send()).text, /Your password is set/)
    assert.equal((await send()).status, 404)
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 0)
  })

  it('`set-password` reads the password from standard input; `list` prints who can log in', () => {
    const set = run(['users', 'set-password', 'grace@example.com', '--name', 'Grace Hopper', '--admin'], `${good}\n`)
    assert.deepEqual(set, { code: 0, stdout: 'grace@example.com can log in now, as admin\n', stderr: '' })
    assert.equal(run(['users', 'invite', 'new@example.com', '--name', 'New']).code, 0)
    const { stdout } = run(['users', 'list'])
    assert.match(stdout, /^\d+ {2}admin {2}has a password {2}grace@example\.com {2}Grace Hopper$/m)
    assert.match(stdout, /^\d+ {2}user {2}has a password {2}ada@example\.com {2}Ada Lovelace$/m)
    assert.match(stdout, /^\d+ {2}user {2}invited {2}new@example\.com {2}New$/m)
    const listed = JSON.parse(run(['users', 'list', '--json']).stdout)
    assert.ok(listed.every((account: object) => !('passwordHash' in account)))
  })

  it('`lock` and `unlock` change the state that `list` shows', async () => {
    const state = async () =>
      / (locked|has a password) .*ada@example/.exec((await commands.run(['users', 'list'])).stdout)?.[1]
    for (const [command, expected] of [
      ['lock', 'locked'],
      ['unlock', 'has a password'],
    ] as const) {
      const { code, stdout } = await commands.run(['users', command, 'ADA@example.com'])
      assert.deepEqual([code, stdout], [0, `ada@example.com is ${command}ed\n`])
      assert.equal(await state(), expected)
    }
    const { stdout } = await commands.run(['users', 'lock', 'admin@localhost'])
    assert.equal(stdout, 'admin@localhost is locked\n')
  })

  const refusals: [string, string[], string, RegExp][] = [
    ['locking an unknown user', ['lock', 'nobody@example.com'], '', /There is no account for nobody@example\.com/],
    [
      'locking the last administrator who can log in',
      ['lock', 'grace@example.com'],
      '',
      /last administrator who can log in/,
    ],
    ['an unknown user', ['invite', 'nobody@example.com'], '', /There is no user nobody@example\.com; pass --name/],
    ['an invalid address', ['invite', 'nobody', '--name', 'N'], '', /The email must match/],
    [
      'an address that POST /users rejects',
      ['set-password', 'x@-a.example', '--name', 'X'],
      good,
      /The email must match/,
    ],
    [
      'an address that is too long',
      ['invite', `${'x'.repeat(250)}@a.example`, '--name', 'X'],
      '',
      /The email must not/,
    ],
    ['a blank name', ['invite', 'x@example.com', '--name', ' '], '', /The name must not have fewer than 1/],
    [
      'a name that is too long',
      ['invite', 'x@example.com', '--name', 'n'.repeat(201)],
      '',
      /The name must not have more/,
    ],
    ['control characters in a name', ['invite', 'x@example.com', '--name', 'a\u0007b'], '', /The name has characters/],
    [
      'a short password',
      ['set-password', 'ada@example.com'],
      'short\n',
      /The password must have at least 12 characters/,
    ],
    ['a password similar to the name', ['set-password', 'ada@example.com'], 'AdaLovelace1815\n', /easy to guess/],
    ['a missing password', ['set-password', 'ada@example.com'], '', /at least 12 characters/],
  ]
  for (const [what, args, input, message] of refusals) {
    it(`exit code 1 and the reason for ${what}`, async () => {
      const { code, stdout, stderr } = await commands.run(['users', ...args], input)
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, message)
    })
  }
})

describe('plinth clients create', () => {
  it('--public with --redirect-uri creates a public client for the authorization code grant', async () => {
    const args = [
      'clients',
      'create',
      '--name',
      'App',
      '--scope',
      'openid',
      '--public',
      '--redirect-uri',
      'http://127.0.0.1/cb',
      'com.example:/cb',
    ]
    const { code, stdout } = await commands.run(args)
    assert.equal(code, 0)
    const [, id] = /^client_id {6}(\S+)\nclient_secret {2}\(none: a public client\)\n$/.exec(stdout) ?? []
    const listed = JSON.parse((await commands.run(['clients', 'list', '--json'])).stdout)
    const { grants, redirectUris, firstParty, trusted } = listed.find((client: { id: string }) => client.id === id)
    assert.deepEqual(grants, ['authorization_code', 'refresh_token'])
    assert.deepEqual(redirectUris, ['http://127.0.0.1/cb', 'com.example:/cb'])
    assert.deepEqual([firstParty, trusted], [false, false])
  })

  it('--trusted creates a trusted client; without it, the password grant is refused and no client is created', async () => {
    const args = ['clients', 'create', '--name', 'Old', '--scope', 'openid', '--trusted', '--grant', 'password']
    assert.equal((await commands.run(args)).code, 0)
    const refused = await commands.run([
      'clients',
      'create',
      '--name',
      'New',
      '--scope',
      'openid',
      '--grant',
      'password',
    ])
    assert.deepEqual([refused.code, refused.stdout], [1, ''])
    assert.match(refused.stderr, /may contain password only for a trusted client/)
    const listed = JSON.parse((await commands.run(['clients', 'list', '--json'])).stdout)
    const made = listed.filter(({ name }: { name: string }) => ['Old', 'New'].includes(name))
    assert.deepEqual(
      made.map(({ name, trusted, grants }: { name: string; trusted: boolean; grants: string[] }) => [
        ...[name, trusted],
        grants,
      ]),
      [['Old', true, ['password']]],
    )
  })
})
