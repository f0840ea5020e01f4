import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { describe, it } from 'node:test'
import type { JWK } from 'jose'
import type { Configuration } from 'oidc-provider'
import { fetch } from 'undici'
import { clientAddress } from '../../src/http/headers/client-address.ts'
import { html } from '../../src/http/pages/html.ts'
import { formSource, pageFrame } from '../../src/http/pages/layout.ts'
import { textOn } from '../../src/http/pages/style.ts'
import { SigningKey } from '../../src/oauth/keys/signing-key.ts'
import { assertSafeSettings } from '../../src/oauth/provider/configuration-checks.ts'
import { onSqlite } from '../support/engines.ts'
import { realServer } from './real.ts'
import { branding } from './support.ts'

/** Computes the contrast ratio of two colors (WCAG 2.2), independently of the code under test. */
function contrast(one: string, other: string): number {
  const light = (color: string) => {
    const channels = [color.slice(1, 3), color.slice(3, 5), color.slice(5, 7)].map((hex) => {
      const value = Number(`0x${hex}`) / 255
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
    })
    return channels[0]! * 0.2126 + channels[1]! * 0.7152 + channels[2]! * 0.0722
  }
  const [bright = 0, dark = 0] = [light(one), light(other)].sort((a, b) => b - a)
  return (bright + 0.05) / (dark + 0.05)
}

describe('pages', () => {
  it('escape all text, wherever it appears', () => {
    const evil = `<script>"&'</script>`
    const { html: page } = pageFrame({ ...branding, productName: evil })(evil, html`<p title="${evil}">${evil}</p>`)
    assert.ok(!page.includes('<script>'))
    assert.equal(page.split('&lt;script&gt;&quot;&amp;&#39;&lt;/script&gt;').length, 7)
  })

  it('have a text contrast of at least 4.5 to 1 on any accent color', () => {
    for (let color = 0; color <= 0xffffff; color += 0x010307) {
      const accent = `#${color.toString(16).padStart(6, '0')}`
      assert.ok(contrast(accent, textOn(accent)) >= 4.5, accent)
    }
  })

  it('have a contrast of at least 4.5 to 1 for text and 3 to 1 for field borders, in light and dark mode', () => {
    const { html: page } = pageFrame(branding)('x', html``)
    const [light = '', dark = ''] = page.split('@media (prefers-color-scheme: dark)')
    for (const part of [light.slice(light.indexOf(':root')), dark]) {
      const color = (name: string) => new RegExp(`--${name}: (#[0-9a-f]{6})`).exec(part)?.[1] as string
      for (const text of ['text', 'quiet', 'wrong']) assert.ok(contrast(color(text), color('card')) >= 4.5, text)
      assert.ok(contrast(color('quiet'), color('ground')) >= 4.5)
      assert.ok(contrast(color('wrong'), color('wrong-ground')) >= 4.5)
      assert.ok(contrast(color('line'), color('card')) >= 3)
    }
  })

  it('restrict form-action to the redirect URI’s origin, or to its scheme if CSP cannot express the host', () => {
    const sources = {
      'https://app.example/cb?x=1': 'https://app.example',
      'https://app.example:8443/cb': 'https://app.example:8443',
      'http://127.0.0.1:5000/cb': 'http://127.0.0.1:5000',
      'http://[::1]:5000/cb': 'http:',
      'com.example.app:/cb': 'com.example.app:',
      'https://a;sandbox/cb': 'https:',
      'https://%2a.example/cb': 'https:',
      'https://a,b/cb': 'https:',
    }
    for (const [address, source] of Object.entries(sources)) assert.equal(formSource(address), source)
  })
})

describe('clientAddress', () => {
  const of = (peer: string, forwarded?: string) =>
    clientAddress(['10.0.0.0/8', '::1'])({
      socket: { remoteAddress: peer },
      headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
    })

  it('returns the address of an untrusted peer, regardless of its headers', () => {
    assert.equal(of('192.0.2.1'), '192.0.2.1')
    assert.equal(of('192.0.2.1', '203.0.113.9'), '192.0.2.1')
  })

  it('returns the last untrusted address behind a trusted proxy, or the proxy’s if there is none', () => {
    assert.equal(of('10.0.0.1', '203.0.113.9'), '203.0.113.9')
    assert.equal(of('10.0.0.1', '1.1.1.1, 203.0.113.9, 10.0.0.2'), '203.0.113.9')
    assert.equal(of('::1', '2001:db8::7'), '2001:db8::7')
    for (const nothing of [undefined, '', 'unknown', '10.0.0.3']) assert.equal(of('10.0.0.1', nothing), '10.0.0.1')
  })

  it('accepts ports and brackets; returns the peer’s address if the last untrusted entry is invalid (T-LIM-02)', () => {
    assert.equal(of('10.0.0.1', '1.1.1.1, 203.0.113.9:5678, 10.0.0.2:80'), '203.0.113.9')
    assert.equal(of('10.0.0.1', '1.1.1.1, [2001:db8::7]:5678, [::1]'), '2001:db8::7')
    for (const hidden of ['unknown', '', '[x]:1', '203.0.113.9:x', 'a'.repeat(8_000)]) {
      assert.equal(of('10.0.0.1', `1.1.1.1, ${hidden}, 10.0.0.2`), '10.0.0.1')
    }
  })
})

onSqlite((engine) => {
  describe('logins above a network’s rate limit', () => {
    it('429 with a page and Retry-After', async () => {
      const real = await realServer(engine, { PLINTH_RATE_LIMIT_TOKEN: '1/60' })
      const headers = { 'content-type': 'application/x-www-form-urlencoded' }
      const login = () => {
        const about = { method: 'POST', headers, body: 'email=a', dispatcher: real.agent }
        return fetch(`${real.baseUrl}/oauth/interaction/none/login`, about)
      }
      const [first, second] = [await login(), await login()]
      const { status, headers: received } = second
      assert.deepEqual([first.status, status, received.get('retry-after')], [400, 429, '60'])
      assert.match(String(received.get('content-type')), /^text\/html/)
      assert.match(await second.text(), /Too many requests/)
      await first.text()
      await real.close()
    })
  })
})

const signingKey = (modulusLength: number) =>
  new SigningKey(generateKeyPairSync('rsa', { modulusLength }).privateKey.export({ format: 'jwk' }) as JWK)

describe('assertSafeSettings', () => {
  const store = () => ({ consume: () => {}, revokeByGrantId: () => {}, upsert: () => {}, find: () => {} })
  const safe = {
    adapter: store,
    cookies: { keys: ['k'.repeat(43)] },
    jwks: { keys: [signingKey(2_048)] },
    features: { devInteractions: { enabled: false }, resourceIndicators: { enabled: true } },
    pkce: { required: () => true },
  }
  const check = (change: object) => assertSafeSettings({ ...safe, ...change } as unknown as Configuration)

  it('accepts a safe configuration', () => assert.doesNotThrow(() => check({})))

  const wrong: [object, RegExp][] = [
    [{ cookies: undefined }, /cookies would not be signed/],
    [{ cookies: { keys: [] } }, /cookies would not be signed/],
    [{ cookies: { keys: ['short'] } }, /a cookie key is too short/],
    [{ jwks: undefined }, /publicly known keys/],
    [{ jwks: { keys: [signingKey(1_024)] } }, /weak or not private/],
    [{ jwks: { keys: [{ n: signingKey(2_048).n }] } }, /weak or not private/],
    [{ adapter: undefined }, /stored only in memory/],
    [{ adapter: () => ({ ...store(), consume: undefined }) }, /cannot consume or revoke/],
    [{ adapter: () => ({ ...store(), revokeByGrantId: undefined }) }, /cannot consume or revoke/],
    [{ features: { resourceIndicators: { enabled: true } } }, /any password would be accepted/],
    [{ features: { ...safe.features, registration: { enabled: true } } }, /anyone could register/],
    [{ features: { devInteractions: { enabled: false } } }, /no audience/],
    [{ pkce: {} }, /not set which clients must use PKCE/],
    [{ clientBasedCORS: () => true }, /CORS is configured twice/],
  ]
  for (const [change, message] of wrong) {
    it(`throws ${message}`, () => assert.throws(() => check(change), message))
  }
})

describe('SigningKey', () => {
  it('throws for a key without its private half', () => {
    const { kty, n, e } = signingKey(2_048)
    assert.throws(() => new SigningKey({ kty, n, e } as JWK), /key/i)
  })
})
