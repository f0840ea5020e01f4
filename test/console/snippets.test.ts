import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { curlOf, type Draft, typescriptOf } from '../../console/src/pages/explorer/snippets.ts'

const nasty = `it's "quoted" \\ \\" $HOME \`id\` \n\u2028 é`
const drafts: Draft[] = [
  { method: 'GET', url: 'https://plinth.test/products?q=it%27s', headers: [], body: null },
  {
    ...{ method: 'PATCH', url: "https://plinth.test/products/1?q='$(id)'" },
    headers: [
      ['If-Match', '"1"'],
      ['X-Text', `'\\' $TOKEN`],
    ],
    body: JSON.stringify({ name: nasty }, null, 2),
  },
  { method: 'POST', url: 'https://plinth.test/oauth/token', headers: [], body: `not JSON: ${nasty}` },
  { method: 'POST', url: 'https://plinth.test/products', headers: [], body: '@/etc/hostname' },
]

/** Runs a command with a substitute for `curl`, and returns the arguments that the substitute received. */
const argumentsOf = (command: string): string[] => {
  const script = `curl() { printf '%s\\0' "$@"; }; ${command}`
  const env = { PATH: process.env.PATH, TOKEN: 'the-token' }
  return execFileSync('bash', ['--norc', '-c', script], { env, encoding: 'utf8' }).split('\0').slice(0, -1)
}

interface Call {
  url: string
  init: { method: string; headers: Record<string, string>; body?: string }
}

/** Runs a program with a substitute for `fetch`, and returns the arguments of its first call. */
const callOf = async (program: string): Promise<Call | undefined> => {
  const calls: Call[] = []
  const fetch = async (url: string, init: Call['init']) => {
    calls.push({ url, init })
    return { status: 200, text: async () => '' }
  }
  const body = `return (async () => { ${program} })()`
  await new Function('fetch', 'process', 'console', body)(fetch, { env: { TOKEN: 'the-token' } }, { log: () => {} })
  return calls[0]
}

describe('requests copied from the API explorer', () => {
  it('curl receives each argument unchanged, and the token from the variable TOKEN', () => {
    for (const draft of drafts) {
      const headers = draft.headers.flatMap(([name, value]) => ['-H', `${name}: ${value}`])
      const body = draft.body === null ? [] : ['--data-raw', draft.body]
      const expected = [
        '-i',
        '-X',
        draft.method,
        draft.url,
        '-H',
        'Authorization: Bearer the-token',
        ...headers,
        ...body,
      ]
      assert.deepEqual(argumentsOf(curlOf(draft)), expected)
    }
  })

  it('fetch receives the URL, method and headers unchanged, an equal body, and the token from the variable TOKEN', async () => {
    for (const draft of drafts) {
      const call = await callOf(typescriptOf(draft))
      assert.deepEqual([call?.url, call?.init.method], [draft.url, draft.method])
      const { Authorization, ...headers } = call?.init.headers ?? {}
      assert.equal(Authorization, 'Bearer the-token')
      assert.deepEqual(headers, Object.fromEntries(draft.headers))
      const isJson = draft.body?.startsWith('{')
      const read = (text: string | undefined | null) => (isJson ? JSON.parse(String(text)) : (text ?? null))
      assert.deepEqual(read(call?.init.body), read(draft.body))
    }
  })
})
