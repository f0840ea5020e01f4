import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { invalidReason, receiver } from '../../src/cli/demo/receiver.ts'
import { screen } from '../../src/cli/demo/screen.ts'

const secret = `whsec_${randomBytes(32).toString('base64')}`
const body = JSON.stringify({ taskId: 'tsk_1', status: 'completed' })

/** Returns the headers for a call signed by the reference implementation. */
function signed(at = new Date(), text = body, key = secret): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1_000))
  const signature = new Webhook(key).sign('msg_1', at, text)
  return { 'webhook-id': 'msg_1', 'webhook-timestamp': timestamp, 'webhook-signature': signature }
}

describe('the demo’s webhook verification', () => {
  const now = Date.now()
  const check = (headers: Record<string, string>, text = body) => invalidReason(secret, headers, Buffer.from(text), now)
  const seconds = (offset: number) => new Date(now + offset * 1_000)

  it('accepts a signature from the reference implementation, as the only one or among others', () => {
    assert.equal(check(signed()), null)
    const headers = signed()
    const others = `v1a,AAAA v1,${Buffer.alloc(32).toString('base64')} v1,short`
    assert.equal(check({ ...headers, 'webhook-signature': `${others} ${headers['webhook-signature']}` }), null)
  })

  it('rejects a changed body, id or timestamp, a different secret, and an unknown signature version', () => {
    const noMatch = 'its signature does not match'
    assert.equal(check(signed(), `${body} `), noMatch)
    assert.equal(check({ ...signed(), 'webhook-id': 'msg_2' }), noMatch)
    assert.equal(check({ ...signed(), 'webhook-timestamp': String(Math.floor(now / 1_000) - 7) }), noMatch)
    assert.equal(check(signed(new Date(), body, `whsec_${randomBytes(32).toString('base64')}`)), noMatch)
    const headers = signed()
    assert.equal(check({ ...headers, 'webhook-signature': `v1a${headers['webhook-signature']?.slice(2)}` }), noMatch)
  })

  it('rejects a missing header, and a timestamp that is malformed or off by more than five minutes', () => {
    assert.equal(check(signed(seconds(-290))), null)
    assert.equal(check(signed(seconds(290))), null)
    assert.match(String(check(signed(seconds(-310)))), /timestamp/)
    assert.match(String(check(signed(seconds(310)))), /timestamp/)
    assert.match(String(check({ ...signed(), 'webhook-timestamp': 'soon' })), /timestamp/)
    for (const name of Object.keys(signed())) assert.match(String(check({ ...signed(), [name]: '' })), /missing/)
  })
})

describe('the demo’s webhook receiver', () => {
  const post = async (url: string, headers: Record<string, string>) =>
    (await fetch(url, { method: 'POST', body, headers: { ...headers, 'webhook-event': 'report.completed' } })).status

  it('204 for a correctly signed call; `received` resolves', async (t) => {
    const hook = await receiver(secret)
    t.after(hook.close)
    assert.equal((await fetch(new URL('/', hook.url))).status, 404)
    assert.equal(await post(hook.url, signed()), 204)
    assert.deepEqual(await hook.received, { event: 'report.completed', body: JSON.parse(body) })
  })

  it('401 for a call whose signature does not match; `received` rejects with the reason', async (t) => {
    const hook = await receiver(secret)
    t.after(hook.close)
    assert.equal(await post(hook.url, { ...signed(), 'webhook-id': 'msg_2' }), 401)
    await assert.rejects(hook.received, /its signature does not match/)
  })
})

describe('the demo’s terminal output', () => {
  async function shown(terminal: { isTTY?: boolean; columns?: number }, env: NodeJS.ProcessEnv): Promise<string> {
    let text = ''
    const write = (more: string) => {
      text += more
      return true
    }
    const out = screen({ isTTY: false, columns: 80, ...terminal, write }, env)
    out.heading('Title')
    await out.step(
      'Loading',
      async (showProgress) => {
        showProgress('12 of 24', 0.5)
        await new Promise((resolve) => setTimeout(resolve, 100))
        return 24
      },
      (count) => `${count} loaded`,
    )
    await out.step('Breaking', () => Promise.reject(new Error('no')), String).catch(() => {})
    return text
  }
  const esc = '\u001b'

  it('redraws a colored progress bar in place on a terminal', async () => {
    const text = await shown({ isTTY: true }, {})
    const frames = text.split(`\r${esc}[2K`)
    assert.ok(frames.some((frame) => frame.includes('████████████░░░░░░░░░░░░  50 % 12 of 24')))
    assert.match(frames.at(-3) ?? '', /✔.*Loading.*24 loaded\n/s)
    assert.match(frames.at(-1) ?? '', /✖.*Breaking/s)
    assert.ok(text.includes(`${esc}[32m✔${esc}[39m`))
  })

  it('truncates lines before they wrap', async () => {
    const text = await shown({ isTTY: true, columns: 30 }, { NO_COLOR: '1' })
    const live = text.split(`\r${esc}[2K`).filter((frame) => !frame.includes('\n'))
    assert.ok(live.length > 1)
    assert.ok(live.every((frame) => frame.length < 30))
  })

  it('uses no color with NO_COLOR', async () => {
    const text = await shown({ isTTY: true }, { NO_COLOR: '1' })
    assert.ok(text.includes('✔'))
    assert.ok(!text.includes(`${esc}[3`) && !text.includes(`${esc}[1`))
  })

  for (const [where, terminal, env] of [
    ['without a terminal', {}, {}],
    ['without a terminal, regardless of FORCE_COLOR', {}, { FORCE_COLOR: '1' }],
    ['on a dumb terminal', { isTTY: true }, { TERM: 'dumb' }],
  ] as const) {
    it(`prints plain lines ${where}`, async () => {
      const text = await shown(terminal, env)
      assert.equal(text, '\n  Title\n\n  ok  Loading    24 loaded\n  failed  Breaking\n')
    })
  }
})
