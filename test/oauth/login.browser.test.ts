import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import * as openid from 'openid-client'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { request } from 'undici'
import { chromiumOptions, maxWaitMs, skip } from '../support/chromium.ts'
import { onSqlite } from '../support/engines.ts'
import { authService, withRecordsLocked } from './real.ts'

onSqlite((engine) => {
  describe('a user with Chromium', { skip }, () => {
    const auth = authService(engine)
    let chrome: Browser
    let app: Server
    let appUrl: string
    before(async () => {
      chrome = await chromium.launch(chromiumOptions)
      // The app has its own origin, as in production.
      app = createServer((_request, response) => response.end('back at the app')).listen(0, '127.0.0.1')
      await once(app, 'listening')
      appUrl = `http://127.0.0.1:${(app.address() as AddressInfo).port}`
    })
    after(async () => {
      await chrome.close()
      app.close()
    })

    /** Runs `work` in a new browser context without JavaScript; fails if a page's CSP blocks anything. */
    const using = async (work: (page: Page, context: BrowserContext) => Promise<void>) => {
      const context = await chrome.newContext({ ignoreHTTPSErrors: true, javaScriptEnabled: false })
      context.setDefaultTimeout(maxWaitMs)
      const page = await context.newPage()
      const blocked: string[] = []
      page.on('console', (message) => /Content.Security.Policy/i.test(message.text()) && blocked.push(message.text()))
      await work(page, context).finally(() => context.close())
      assert.deepEqual(blocked, [])
    }
    const begun = async (change = {}) => {
      const redirect_uri = `${appUrl}/cb`
      const registered = { redirectUris: [redirect_uri], postLogoutRedirectUris: [`${appUrl}/bye`], ...change }
      const config = await auth.openidClient(registered)
      const verifier = openid.randomPKCECodeVerifier()
      const code_challenge = await openid.calculatePKCECodeChallenge(verifier)
      const query = {
        redirect_uri,
        scope: 'openid users:read',
        state: 's',
        code_challenge,
        code_challenge_method: 'S256',
      }
      const url = openid.buildAuthorizationUrl(config, query).href
      const tokens = (back: string) =>
        openid.authorizationCodeGrant(config, new URL(back), { pkceCodeVerifier: verifier, expectedState: 's' })
      return { config, url, tokens }
    }
    const title = (page: Page, name: string) => page.getByRole('heading', { name, exact: true }).waitFor()
    const signIn = async (page: Page, password: string) => {
      await page.getByLabel('E-mail address').fill(auth.user.email)
      await page.getByLabel('Password').fill(password)
      await page.getByRole('button', { name: 'Sign in' }).click()
    }

    it('logs in, consents, returns to the app with a code for an API token, and logs out', async () => {
      const { config, url, tokens } = await begun()
      await using(async (page) => {
        await page.goto(url)
        await signIn(page, 'wrong password here')
        assert.equal(await page.getByRole('alert').textContent(), 'The e-mail address or password is wrong.')
        await signIn(page, auth.user.password)
        await title(page, 'Allow The App?')
        await page.getByRole('button', { name: 'Allow', exact: true }).click()
        await page.getByText('back at the app').waitFor()
        const { access_token, id_token } = await tokens(page.url())
        const headers = { authorization: `Bearer ${access_token}` }
        const answer = await request(`${auth.baseUrl}/users/${auth.user.userId}`, { headers, dispatcher: auth.agent })
        assert.equal(((await answer.body.json()) as { email: string }).email, auth.user.email)
        const post_logout_redirect_uri = `${appUrl}/bye`
        await page.goto(
          openid.buildEndSessionUrl(config, { id_token_hint: id_token as string, post_logout_redirect_uri }).href,
        )
        await page.getByRole('button', { name: 'Sign out' }).click()
        await page.waitForURL(post_logout_redirect_uri)
        await page.goto(url)
        await title(page, 'Sign in')
      })
    })

    it('can log in and deny consent using only the keyboard', async () => {
      const { url } = await begun()
      await using(async (page) => {
        await page.goto(url)
        // Chromium focuses the field after the page has loaded.
        await page.locator('input[name=email]:focus').waitFor()
        await page.keyboard.type(auth.user.email)
        await page.keyboard.press('Tab')
        await page.keyboard.type(auth.user.password)
        await page.keyboard.press('Enter')
        await page.getByRole('heading', { name: 'Allow The App?' }).waitFor()
        await page.keyboard.press('Tab')
        await page.keyboard.press('Tab')
        await page.keyboard.press('Enter')
        await page.waitForURL(/error=access_denied/)
        assert.equal(new URL(page.url()).searchParams.get('state'), 's')
      })
    })

    it('returns to the app with access_denied after clicking Cancel', async () => {
      const { url } = await begun()
      await using(async (page) => {
        await page.goto(url)
        await page.getByRole('button', { name: 'Cancel' }).click()
        await page.waitForURL(/[?&]error=access_denied/)
      })
    })

    it('is not asked to consent to a first-party app, and is redirected at once on the second visit', async () => {
      const { url, tokens } = await begun({ firstParty: true, secret: null })
      await using(async (page) => {
        await page.goto(url)
        await signIn(page, auth.user.password)
        await page.waitForURL(/[?&]code=/)
        assert.ok((await tokens(page.url())).access_token)
        await page.goto(url)
        await page.waitForURL(/[?&]code=/)
      })
    })

    it('sees a busy page while the database is locked, and then, without any action, the login page', async () => {
      const { url } = await begun()
      await using(async (page) => {
        await withRecordsLocked(auth, async () => {
          await page.goto(url)
          await title(page, 'The service is busy')
        })
        await title(page, 'Sign in')
      })
    })

    it('sees an explanation if the login took too long', async () => {
      const { url } = await begun()
      await using(async (page) => {
        await page.goto(url)
        await auth.db.write((tx) => tx.deleteFrom('authRecords').where('kind', '=', 'Interaction').execute())
        await signIn(page, auth.user.password)
        await title(page, 'Something went wrong')
        assert.match((await page.textContent('main')) ?? '', /Go back to the app and start again/)
      })
    })

    it('sees pages that fit a 320-pixel-wide screen, in light and dark mode', async () => {
      const { url } = await begun()
      for (const colorScheme of ['light', 'dark'] as const) {
        const context = await chrome.newContext({
          ignoreHTTPSErrors: true,
          viewport: { width: 320, height: 640 },
          colorScheme,
        })
        context.setDefaultTimeout(maxWaitMs)
        const page = await context.newPage()
        const fits = () => page.evaluate('document.documentElement.scrollWidth <= 320')
        await page.goto(url)
        assert.ok(await fits())
        await signIn(page, auth.user.password)
        await title(page, 'Allow The App?')
        assert.ok(await fits())
        await page.goto(`${auth.baseUrl}/oauth/authorize?client_id=${'x'.repeat(200)}`)
        assert.ok(await fits())
        await context.close()
      }
    })
  })
})
