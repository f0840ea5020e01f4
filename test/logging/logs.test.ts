import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Logs, openLogs } from '../../src/logging/logs.ts'

const esc = '\u001b'
const request = {
  ...{ requestId: 'trace-0001', method: 'GET', path: '/things/7', route: '/things/:id', status: 200, ms: 1.25 },
  ...{ bytes: 1_240, address: '192.0.2.7', client: 'cli_a', subject: 'usr_1', errorCode: undefined },
}

/** Returns the text that the log writes to an output. */
function written(
  use: (logs: Logs) => void,
  { isTTY = false, env = {}, level = 'info' }: { isTTY?: boolean; env?: NodeJS.ProcessEnv; level?: string } = {},
): string {
  let text = ''
  const write = (more: string) => {
    text += more
    return true
  }
  const logs = openLogs(level, { out: { isTTY, columns: 80, write }, env, now: () => 1_700_000_000_123 })
  use(logs)
  logs.flush()
  return text
}

describe('the log written to a pipe', () => {
  it('is JSON with an ISO timestamp and a message, both for requests and for all other entries', () => {
    const lines = written(({ log, access }) => {
      log.warn({ refused: 3 }, 'connections refused')
      access(request)
    })
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(
      lines.map(({ level, time, msg }) => [level, time, msg]),
      [
        [40, '2023-11-14T22:13:20.123Z', 'connections refused'],
        [30, '2023-11-14T22:13:20.123Z', 'request completed'],
      ],
    )
    assert.equal(lines[0].refused, 3)
    assert.equal(lines[1].route, '/things/:id')
  })

  it('omits requests if the level is warn', () => {
    assert.equal(
      written(({ access }) => access(request), { level: 'warn' }),
      '',
    )
  })
})

describe('the log on a terminal', () => {
  const plain = { isTTY: true, env: { NO_COLOR: '1' } }

  it('shows a readable line for each request', () => {
    const failed = { ...request, status: 404, path: '/nothing', bytes: 17, errorCode: 'RESOURCE_NOT_FOUND' }
    const text = written(({ access }) => {
      access(request)
      access({ ...failed, client: undefined })
    }, plain)
    const [first, second] = text.split('\n')
    assert.match(first as string, /^\d\d:\d\d:\d\d\.123 {2}200 {2}GET {4}\/things\/7 {2}1\.25 ms {2}1\.2 kB {2}cli_a$/)
    assert.match(second as string, /404 {2}GET {4}\/nothing {2}1\.25 ms {2}17 B {2}RESOURCE_NOT_FOUND$/)
  })

  it('shows an error’s message, fields and stack trace', () => {
    const text = written(
      ({ log }) => log.error({ err: new Error('no such file'), queue: 'report' }, 'job failed'),
      plain,
    )
    assert.match(text, /^\d\d:\d\d:\d\d\.123 {2}ERROR {2}job failed {2}queue=report\n {4}Error: no such file\n {8}at /)
  })

  it('is colored, unless NO_COLOR is set or the terminal is dumb', () => {
    const use = ({ access }: Logs) => access(request)
    assert.ok(written(use, { isTTY: true }).includes(`${esc}[32m200${esc}[39m`))
    for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) {
      assert.ok(!written(use, { isTTY: true, env }).includes(esc))
    }
  })

  it('replaces control characters sent by a client', () => {
    const text = written(({ access, log }) => {
      access({ ...request, client: `a${esc}[2Jb`, path: '/a\u009bb' })
      log.warn({ network: `a${esc}b\r` }, 'connections refused')
    }, plain)
    assert.doesNotMatch(text, /[^\P{Cc}\n]/u)
  })
})
