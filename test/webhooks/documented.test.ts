// Runs in its own process: its signatures are valid for five minutes after the import.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { builtIn } from '../../src/catalog/service.ts'
import { newSecret, signature } from '../../src/webhooks/dispatch/sign.ts'

const page = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8')
/** The programs on the page, keyed by the file name that follows their language tag. */
const snippets = new Map(
  [...page.matchAll(/^```\w+ ([\w.-]+)\n(.*?)^```$/gms)].map(([, name, text]) => [name as string, text as string]),
)

interface Case {
  what: string
  isRight: boolean
  secret: string
  headers: Record<string, string>
  body: string
}

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const jwk = publicKey.export({ format: 'jwk' })
const body = JSON.stringify({ taskId: 'tsk_1', status: 'completed', resultUrl: '/api/é' })
const now = Math.floor(Date.now() / 1_000)

/** Returns the headers of a call that is signed as the service does. */
function signed(secrets: string[], timestampSeconds = now, privateKeys = [privateKey]): Record<string, string> {
  const message = { id: 'msg_1', timestampSeconds, body: Buffer.from(body) }
  return {
    'webhook-id': message.id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signature({ secrets, privateKeys }, message),
  }
}

const [secret, next] = [newSecret(randomBytes), newSecret(randomBytes)] as const
const right = signed([secret])
const cases: Case[] = [
  { what: 'a call as it was sent', isRight: true, secret, headers: right, body },
  { what: 'the new secret of a rotation', isRight: true, secret: next, headers: signed([next, secret]), body },
  { what: 'the old secret of a rotation', isRight: true, secret, headers: signed([next, secret]), body },
  { what: 'a call of a minute ago', isRight: true, secret, headers: signed([secret], now - 60), body },
  { what: 'another body', isRight: false, secret, headers: right, body: body.replace('completed', 'failed') },
  { what: 'another id', isRight: false, secret, headers: { ...right, 'webhook-id': 'msg_2' }, body },
  { what: 'another time', isRight: false, secret, headers: { ...right, 'webhook-timestamp': String(now - 1) }, body },
  { what: 'a replay after ten minutes', isRight: false, secret, headers: signed([secret], now - 600), body },
  { what: 'a call from the future', isRight: false, secret, headers: signed([secret], now + 600), body },
  { what: 'another secret', isRight: false, secret: next, headers: right, body },
  { what: 'no secret of ours', isRight: false, secret, headers: signed([]), body },
  { what: 'no number for a time', isRight: false, secret, headers: { ...right, 'webhook-timestamp': 'now' }, body },
  { what: 'no signature', isRight: false, secret, headers: { ...right, 'webhook-signature': '' }, body },
  { what: 'an empty signature', isRight: false, secret, headers: { ...right, 'webhook-signature': 'v1,' }, body },
]
const expected = cases.map(({ what, isRight }) => `${what}: ${isRight}`)

const folder = mkdtempSync(join(tmpdir(), 'plinth-snippets-'))
after(() => rmSync(folder, { recursive: true }))

/** Writes a snippet to a file whose imports resolve to this project's packages. */
function writeSnippet(name: string): string {
  const file = join(folder, name)
  const text = snippets.get(name)
  assert.ok(text, `docs/webhooks.md has no ${name}`)
  writeFileSync(
    file,
    text.replace("'standardwebhooks'", () => JSON.stringify(import.meta.resolve('standardwebhooks'))),
  )
  return file
}

const load = (name: string): Promise<{ verify: (...of: unknown[]) => unknown }> =>
  import(pathToFileURL(writeSnippet(name)).href)

const judge = (verify: () => unknown): boolean => {
  try {
    verify()
    return true
  } catch {
    return false
  }
}

/** Returns the reason to skip tests of a program, or false if this command succeeds. */
const missing = (command: string, ...args: string[]) =>
  spawnSync(command, args).status === 0 ? false : `${command} ${args.join(' ')} does not work here`

const forged = {
  ...right,
  'webhook-signature': signed([secret], now, [generateKeyPairSync('ed25519').privateKey])[
    'webhook-signature'
  ] as string,
}

describe('docs/webhooks.md', () => {
  it('standard.ts accepts valid calls and rejects invalid ones', async () => {
    const { verify } = await load('standard.ts')
    const results = cases.map((one) => `${one.what}: ${judge(() => verify(one.secret, one.headers, one.body))}`)
    assert.deepEqual(results, expected)
    assert.deepEqual(verify(secret, right, body), JSON.parse(body))
  })

  it('crypto.ts accepts valid calls and rejects invalid ones', async () => {
    const { verify } = await load('crypto.ts')
    const results = cases.map(
      (one) => `${one.what}: ${judge(() => verify(one.secret, one.headers, Buffer.from(one.body)))}`,
    )
    assert.deepEqual(results, expected)
    assert.deepEqual(verify(secret, right, Buffer.from(body)), JSON.parse(body))
  })

  it('public-key.ts accepts a call signed with the service’s key and rejects forged, unsigned and changed calls', async () => {
    const { verify } = await load('public-key.ts')
    const tries = [right, forged, signed([secret], now, [])].map((headers) =>
      judge(() => verify(jwk, headers, Buffer.from(body))),
    )
    assert.deepEqual([...tries, judge(() => verify(jwk, right, Buffer.from('{}')))], [true, false, false, false])
  })

  const python = (name: string, driver: string, input: object) => {
    writeSnippet(name)
    const run = spawnSync('python3', ['-c', driver], { cwd: folder, input: JSON.stringify(input), encoding: 'utf8' })
    assert.equal(run.status, 0, run.stderr)
    return JSON.parse(run.stdout)
  }

  it('verify.py accepts valid calls and rejects invalid ones', { skip: missing('python3', '--version') }, () => {
    const driver = `
import json, sys
from verify import verify
def judge(case):
    try:
        return verify(case["secret"], case["headers"], case["body"].encode()) == json.loads(case["body"])
    except ValueError:
        return False
print(json.dumps([judge(case) for case in json.load(sys.stdin)]))`
    const results = python('verify.py', driver, cases).map((is: boolean, n: number) => `${cases[n]?.what}: ${is}`)
    assert.deepEqual(results, expected)
  })

  it('public_key.py accepts a call signed with the service’s key and rejects forged, unsigned and changed calls', {
    skip: missing('python3', '-c', 'import cryptography'),
  }, () => {
    const driver = `
import json, sys
from public_key import verify
def judge(case):
    try:
        verify(case["jwk"], case["headers"], case["body"].encode())
        return True
    except ValueError:
        return False
print(json.dumps([judge(case) for case in json.load(sys.stdin)]))`
    const tries = [right, forged, signed([secret], now, [])].map((headers) => ({ jwk, headers, body }))
    assert.deepEqual(python('public_key.py', driver, [...tries, { jwk, headers: right, body: '{}' }]), [
      true,
      false,
      false,
      false,
    ])
  })

  const skip = missing('bash', '--version') || missing('openssl', 'version')
  it('verify.sh accepts valid calls and rejects invalid ones', { skip }, () => {
    const file = writeSnippet('verify.sh')
    const results = cases.map(({ what, headers, ...one }) => {
      const call = {
        ID: headers['webhook-id'],
        TIMESTAMP: headers['webhook-timestamp'],
        SIGNATURES: headers['webhook-signature'],
      }
      const { status } = spawnSync('bash', [file], {
        input: one.body,
        env: { ...process.env, ...call, SECRET: one.secret },
      })
      return `${what}: ${status === 0}`
    })
    assert.deepEqual(results, expected)
  })

  it('lists every report, webhook and user event type, and contains six programs', () => {
    for (const event of Object.keys(builtIn.events).filter((name) => /^(report|webhook|user)\./.test(name))) {
      assert.ok(page.includes(`\`${event}\``), event)
    }
    assert.deepEqual([...snippets.keys()].length, 6)
  })
})
