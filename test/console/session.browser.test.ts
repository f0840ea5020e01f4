import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { authService, type Person } from '../oauth/real.ts'
import { skip } from '../support/chromium.ts'
import { forEachEngine } from '../support/engines.ts'
import { accessibilityFaults, chromiumBrowser, logIn } from './browser.ts'

forEachEngine((engine) => {
  describe('the console after its session has ended or its connection is lost', { skip }, () => {
    const auth = authService(engine)
    const using = chromiumBrowser(() => auth.baseUrl)
    const admin = () => auth.person({ role: 'admin', name: 'Grace Hopper' })
    const link = (page: Page, name: string) => page.getByRole('link', { name, exact: true })
    const signIn = (page: Page) => page.getByRole('button', { name: 'Sign in again' })

    /** Opens the login page from the message that the session has ended, and logs in. */
    const signInAgain = async (page: Page, person: Person) => {
      await signIn(page).click()
      // Until the login page opens, the console is still shown, which `logIn` would take for a completed login.
      await page.getByLabel('E-mail address', { exact: true }).waitFor()
      await logIn(page, person)
    }

    /** Sends a request as a machine client with the scope `admin`. */
    const operate = async (method: 'DELETE' | 'PATCH', path: string, body?: object) => {
      const { id, secret } = await auth.client({ grants: ['client_credentials'] })
      const form = { grant_type: 'client_credentials', client_id: id, client_secret: String(secret) }
      const { access_token: token } = JSON.parse((await auth.postForm('/oauth/token', form)).text)
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/merge-patch+json' }
      const response = await auth.send(path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
      await response.body.dump()
      return response.statusCode
    }

    /** Opens the clients page as this user, ends the session with `end`, and opens the users page. */
    const afterTheEnd = async (page: Page, person: Person, end: () => Promise<void>) => {
      await page.goto(`${auth.baseUrl}/console/access/clients`)
      await logIn(page, person)
      await link(page, 'Console').waitFor()
      await end()
      await link(page, 'Users').click()
      await page.getByText('Your session has ended.').waitFor()
    }

    it('shows that the session has ended, and returns to the page after a new login', async () => {
      const person = await admin()
      await using({ expected: /40[01]|ERR_CONNECTION_REFUSED/ }, async ({ page }) => {
        await afterTheEnd(page, person, async () => {
          assert.equal(await operate('DELETE', `/api/users/${person.userId}/sessions`), 204)
        })
        assert.deepEqual(await accessibilityFaults(page), [])
        let tokenRequests = 0
        page.on('request', (request) => {
          if (new URL(request.url()).pathname === '/oauth/token') tokenRequests++
        })
        for (const name of ['Webhooks', 'API keys']) {
          await link(page, name).click()
          await page.getByRole('heading', { level: 1, name }).waitFor()
          await page.getByRole('button', { name: 'Try again' }).waitFor()
        }
        assert.equal(tokenRequests, 0)
        await link(page, 'Users').click()
        await page.waitForURL(/\/access\/users$/)
        await page.route(/openid-configuration/, (route) => route.abort('connectionrefused'))
        // The message is shown only for a few seconds.
        await Promise.all([page.getByText('The service cannot be reached.').waitFor(), signIn(page).click()])
        await page.unroute(/openid-configuration/)
        await signInAgain(page, person)
        assert.equal(page.url(), `${auth.baseUrl}/console/access/users`)
        await link(page, 'Grace Hopper').first().waitFor()
        assert.equal(await signIn(page).count(), 0)
      })
    })

    it('refuses administrator pages after a new login if the user has lost the admin role', async () => {
      const [person] = [await admin(), await admin()]
      await using({ expected: /40[01]/ }, async ({ page }) => {
        await afterTheEnd(page, person, async () => {
          assert.equal(await operate('PATCH', `/api/users/${person.userId}/account`, { role: 'user' }), 200)
        })
        await signInAgain(page, person)
        await page.getByRole('heading', { name: 'You may not see this page' }).waitFor()
        assert.equal(await link(page, 'Users').count(), 0)
      })
    })

    it('keeps showing the page while the browser is offline, and loads the next page once it is online', async () => {
      const person = await admin()
      await using({ expected: /ERR_INTERNET_DISCONNECTED|WebhookList/ }, async ({ page, context }) => {
        await page.goto(`${auth.baseUrl}/console/access/clients`)
        await logIn(page, person)
        await link(page, 'Console').waitFor()
        await context.setOffline(true)
        await page.getByText('You are offline.').waitFor()
        assert.ok(await link(page, 'Console').isVisible())
        assert.deepEqual(await accessibilityFaults(page), [])
        await link(page, 'Webhooks').click()
        await page.getByRole('heading', { name: 'You are offline' }).waitFor()
        assert.deepEqual(await accessibilityFaults(page), [])
        await context.setOffline(false)
        await page.getByText('You are offline.').waitFor({ state: 'detached' })
        await page.getByRole('heading', { level: 1, name: 'Webhooks' }).waitFor()
        await page.getByText('There are no webhooks yet').waitFor()
      })
    })

    it('shows that the service cannot be reached, and sends the request again on “Try again”', async () => {
      const person = await admin()
      await using({ expected: /ERR_CONNECTION_REFUSED|WebhookList/ }, async ({ page }) => {
        await page.goto(`${auth.baseUrl}/console/access/clients`)
        await logIn(page, person)
        await page.goto(`${auth.baseUrl}/console/access/api-keys`)
        await page.getByText('There are no API keys').waitFor()
        await page.goBack()
        await link(page, 'Console').waitFor()
        await page.route(/\/api\//, (route) => route.abort('connectionrefused'))
        await link(page, 'Signing keys').click()
        await page.getByText('The service cannot be reached.').waitFor()
        assert.deepEqual(await accessibilityFaults(page), [])
        await page.unroute(/\/api\//)
        await page.getByRole('button', { name: 'Try again' }).click()
        await page.getByText('Signs new tokens').first().waitFor()
        await page.route(/\/console\/assets\//, (route) => route.abort('connectionrefused'))
        await link(page, 'Webhooks').click()
        await page.getByText('The page could not be loaded or shown.').waitFor()
        await page.unroute(/\/console\/assets\//)
        await page.getByRole('button', { name: 'Try again' }).click()
        await page.getByText('There are no webhooks yet').waitFor()
      })
    })
  })
})
