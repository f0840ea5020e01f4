import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { decodeProtectedHeader } from 'jose'
import { eventually } from '../support/service.ts'
import { commandRunner, ended, killAll, newPlace, requestToken, serving, succeeding, visit } from './support.ts'

const { dataDir, port, env: place, remove } = await newPlace()
// Token requests must not be limited: one test repeats them until a token is signed with the new key.
const env = { ...place, PLINTH_RATE_LIMIT_TOKEN: 'off' }
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

/** Runs a command that must fail; returns its error message. */
async function fail(...args: string[]): Promise<string> {
  const { code, stderr } = await commands.run(args)
  assert.equal(code, 1)
  return stderr
}

describe('plinth keys, clients and audit', () => {
  it('`keys` creates, lists and revokes API keys; each change is audited, and the log passes verification', async () => {
    const created = await run('keys', 'create', '--name', 'Batch', '--rate', '600/60', '--quota', '5000')
    const [, id, key] = /^id {7}(key_\S+)\napi_key {2}(plk_\S+)\n$/.exec(created) ?? []
    assert.ok(id && key)
    assert.match(
      await run('keys', 'list'),
      new RegExp(`^${id} {2}${key.slice(0, 10)}… {2}Batch\n.*never.*600/60.*5000`),
    )
    const [listed] = JSON.parse(await run('keys', 'list', '--json'))
    assert.deepEqual([listed.id, listed.quota, listed.keyHash], [id, 5_000, undefined])
    assert.equal(await run('keys', 'revoke', id), `Revoked ${id}\n`)
    assert.equal(await run('keys', 'list'), '')
    const entries = (await run('audit', 'list', '--target', id, '--json'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(
      entries.map(({ event, subject }) => [event, subject]),
      [
        ['key.revoked', 'command line'],
        ['key.created', 'command line'],
      ],
    )
    assert.match(
      await run('audit', 'list', '--event', 'key.created'),
      new RegExp(`^\\d+ .* key.created {2}${id} {2}by command line`),
    )
    const [, anchor] = /intact: \d+ entries\nStore this .*--expect (\S+)\n$/.exec(await run('audit', 'verify')) ?? []
    assert.match(await run('audit', 'verify', '--expect', anchor as string), /is intact/)
    const other = `${anchor?.split(':')[0]}:${'A'.repeat(43)}`
    assert.match(
      await fail('audit', 'verify', '--expect', other),
      /^plinth: The audit log was altered: entry \d+ does not match the given hash/,
    )
  })

  const refusals: [string, string[], RegExp][] = [
    ['an unknown API key', ['keys', 'revoke', 'key_nobody'], /^plinth: There is no active API key key_nobody\n$/],
    ['an invalid rate', ['keys', 'create', '--name', 'x', '--rate', 'fast'], /^plinth: --rate must be calls\/seconds/],
    ['an invalid quota', ['keys', 'create', '--name', 'x', '--quota', 'many'], /whole number/],
    ...['2030', 'Jan 5 2030', '2030-01-31', '2030-02-30T00:00:00Z'].map((text): [string, string[], RegExp] => [
      `an expiry of ${text}`,
      ['keys', 'create', '--name', 'x', '--expires', text],
      /^plinth: --expires must be an instant in the future/,
    ]),
    ['an unknown client', ['clients', 'update', 'nobody', '--name', 'x'], /There is no active client nobody/],
    [
      'a misspelled audit event',
      ['audit', 'list', '--event', 'client.revokd'],
      /argument 'client\.revokd' is invalid\. Did you mean client\.revoked\?/,
    ],
    [
      'an unknown audit event',
      ['audit', 'list', '--event', 'nonsense'],
      /argument 'nonsense' is invalid\. It must be one of .*, client\.created, .*, webhook\.updated\./,
    ],
    ['an invalid anchor', ['audit', 'verify', '--expect', 'x'], /printed by an earlier check/],
    ...['yesterday', '2026-02-30'].map((text): [string, string[], RegExp] => [
      `audit list --from ${text}`,
      ['audit', 'list', '--from', text],
      /option '--from <instant>' argument '\S+' is invalid\. It must be an instant such as 2026-11-22T18:00:00Z/,
    ]),
  ]
  for (const [what, args, message] of refusals) {
    it(`exit code 1 and the reason for ${what}`, async () => assert.match(await fail(...args), message))
  }

  it('`clients update` changes what `clients show` prints; `rotate-secret` fails for a public client', async () => {
    const created = await run(
      ...['clients', 'create', '--name', 'App', '--public', '--grant', 'authorization_code', '--scope', 'openid'],
      ...['--redirect-uri', 'http://127.0.0.1/cb', '--redirect-uri', 'com.example.app:/cb', '--first-party'],
    )
    const [, id] = /^client_id {6}(\S+)\nclient_secret {2}\(none: a public client\)\n$/.exec(created) ?? []
    const shown = async () => JSON.parse(await run('clients', 'show', id as string))
    assert.deepEqual([(await shown()).type, (await shown()).firstParty], ['public', true])
    await run('clients', 'update', id as string, '--name', 'Other', '--no-first-party')
    const { name, firstParty, redirectUris } = await shown()
    assert.deepEqual([name, firstParty, redirectUris.length], ['Other', false, 2])
    assert.match(await fail('clients', 'rotate-secret', id as string), /public client has no secret/)
  })

  it('`keys rotate --now` makes the running service sign with the new key; old tokens stay valid', async () => {
    const service = await serving(dataDir, port, env)
    const runAlone = succeeding(env)
    const created = await run('clients', 'create', '--name', 'Partner', '--scope', 'users:read')
    const [, id = '', before = ''] = /^client_id {6}(\S+)\nclient_secret {2}(\S+)\n$/.exec(created) ?? []
    const [, secret = ''] = /^client_secret {2}(\S+)\n$/.exec(await runAlone('clients', 'rotate-secret', id)) ?? []
    assert.equal((await requestToken(dataDir, port, id, before)).status, 401)
    const ask = async () => (await requestToken(dataDir, port, id, secret)).json().access_token as string
    const old = await ask()
    const [, kid] = /^Published (\S+), signs from /.exec(await runAlone('keys', 'rotate', '--now')) ?? []
    assert.notEqual(decodeProtectedHeader(old).kid, kid)
    const fresh = await eventually(
      'the new key signs',
      async () => {
        const token = await ask()
        return decodeProtectedHeader(token).kid === kid && token
      },
      40_000,
    )
    for (const token of [old, fresh]) {
      const headers = { authorization: `Bearer ${token}` }
      assert.equal((await visit(dataDir, `https://localhost:${port}/users`, { headers })).status, 200)
    }
    assert.match(await run('keys', 'rotate'), /^Published /)
    assert.equal(await run('keys', 'rotate'), 'A new key is already published and not active yet\n')
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 0)
    assert.match(await run('audit', 'list', '--event', 'token.granted', '--client', id), /token.granted/)
  })
})

describe('plinth --help', () => {
  const help: [string[], RegExp][] = [
    [
      ['keys'],
      /An API key \(create[\s\S]*grants\s+no\s+access[\s\S]*Signing keys \(rotate\)[\s\S]*create .*\n[\s\S]*list .*\n[\s\S]*revoke .*\n[\s\S]*rotate/,
    ],
    [['keys', 'rotate'], /--now[\s\S]*--discard/],
    [['audit'], /list .*\n[\s\S]*verify/],
    [['clients', 'update'], /--name <name>[\s\S]*--no-trusted/],
  ]
  it('lists subcommands and options, and distinguishes API keys from signing keys', async () => {
    for (const [args, expected] of help) assert.match(await run(...args, '--help'), expected)
  })
})
