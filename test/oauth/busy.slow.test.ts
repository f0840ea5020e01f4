import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as openid from 'openid-client'
import { forEachEngine } from '../support/engines.ts'
import { formAction, type Visit } from './browser.ts'
import { authService, redirectUri, withRecordsLocked } from './real.ts'

forEachEngine((engine) => {
  describe('a login while the database accepts no writes', () => {
    const auth = authService(engine)
    const begun = async () => {
      const config = await auth.openidClient()
      const code_challenge = await openid.calculatePKCECodeChallenge(openid.randomPKCECodeVerifier())
      const query = { redirect_uri: redirectUri, scope: 'openid', code_challenge, code_challenge_method: 'S256' }
      return openid.buildAuthorizationUrl(config, query).href
    }
    /** Asserts that the page refreshes to another page, and returns the path of that page. */
    const reopened = ({ status, headers, text }: Visit) => {
      assert.equal(status, 503)
      assert.match(text, /<h1>The service is busy<\/h1>/)
      const [, seconds, path = ''] = /^([1-5]); url=(\/.+)$/.exec(String(headers.refresh)) ?? []
      assert.equal(headers['retry-after'], seconds)
      assert.ok(text.includes(`href="${path.replaceAll('&', '&amp;')}"`), text)
      return path
    }

    it('503 with a page that retries the authorization request', async () => {
      const [url, one] = [await begun(), auth.browser()]
      const path = reopened(await withRecordsLocked(auth, () => one.visit(url)))
      assert.equal(auth.baseUrl + path, url)
      assert.notEqual(formAction(await one.visit(path), 'login'), '')
    })

    it('503 temporarily_unavailable for a client that accepts only JSON', async () => {
      const url = await begun()
      const refused = () => auth.browser().once(url, undefined, { accept: 'application/json' })
      const { status, headers, text } = await withRecordsLocked(auth, refused)
      assert.deepEqual([status, headers['retry-after'], headers.refresh], [503, '5', undefined])
      assert.equal(JSON.parse(text).error, 'temporarily_unavailable')
    })

    it('503 for the submitted form, with a page that opens the login page again', async () => {
      const one = auth.browser()
      const login = await one.visit(await begun())
      const path = reopened(await withRecordsLocked(auth, () => one.logIn(login, auth.user)))
      const again = await one.visit(path)
      assert.equal(formAction(again, 'login'), formAction(login, 'login'))
      assert.notEqual(formAction(await one.logIn(again, auth.user), 'consent'), '')
    })
  })
})
