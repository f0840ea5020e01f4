import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { minuteMs, trafficCounter } from '../../src/traffic/counter.ts'
import { authService } from '../oauth/real.ts'
import { skip } from '../support/chromium.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { accessibilityFaults, chromiumBrowser, logIn, settled } from './browser.ts'

forEachEngine((engine) => {
  describe('the overview, traffic and requests in the console', { skip }, () => {
    const auth = authService(engine, { PLINTH_RATE_LIMIT: '100000/60' })
    const using = chromiumBrowser(() => auth.baseUrl)

    const asAdmin = async (page: Page, path: string) => {
      const admin = await auth.person({ role: 'admin', name: 'Grace Hopper' })
      await page.goto(`${auth.baseUrl}/console${path}`)
      await logIn(page, admin)
      await settled(page)
    }
    const assertAccessible = async (page: Page) => assert.deepEqual(await accessibilityFaults(page), [])
    const machine = async (name: string) => {
      const { id, secret } = await auth.client({ name, grants: ['client_credentials'], redirectUris: [] })
      const form = { grant_type: 'client_credentials', client_id: id, client_secret: secret ?? '' }
      const { access_token } = JSON.parse((await auth.postForm('/oauth/token', form)).text)
      const get = async (path: string) => {
        const response = await auth.send(path, { headers: { authorization: `Bearer ${access_token}` } })
        return {
          status: response.statusCode,
          requestId: response.headers['x-request-id'],
          body: await response.body.text(),
        }
      }
      return { id, name, get }
    }

    it('show charts with samples of real requests', async () => {
      const { get } = await machine('Warehouse')
      for (const path of ['/products', '/products', '/products/99999']) await get(path)
      await eventually('a sample is stored', async () => {
        const samples = await auth.db.read.selectFrom('metricSamples').select('succeeded').execute()
        return samples.some(({ succeeded }) => succeeded > 0)
      })
      await using({}, async ({ page }) => {
        await asAdmin(page, '/')
        const chart = page.getByRole('img', { name: /^Requests: Succeeded [\d.]+\/s, 4xx [\d.]+\/s, 5xx 0\/s$/ })
        await chart.waitFor()
        await page.locator('.charts canvas').nth(8).waitFor()
        assert.equal(await page.locator('.charts canvas').count(), 9)
        await page.getByText(/^\d+ in this range$/).waitFor()
        await page.getByRole('table').getByText('live', { exact: true }).waitFor()
        await assertAccessible(page)
        for (const range of ['6 hours', 'Day']) {
          await page.getByRole('link', { name: range }).click()
          await chart.waitFor()
        }
        await page.getByRole('link', { name: 'Rate limited' }).first().click()
        await page.getByRole('heading', { level: 1, name: 'Traffic' }).waitFor()
      })
    })

    it('poll once every 15 seconds for all charts, and not while the page is hidden', async () => {
      await using({}, async ({ page }) => {
        await page.clock.install()
        await asAdmin(page, '/')
        const history = (url: string) => url.includes('/api/metrics/history')
        const poll = async (advance: () => Promise<void>) => {
          const polled = page.waitForResponse((response) => history(response.url()))
          await advance()
          await (await polled).finished()
        }
        // From now on, time passes only in `runFor`.
        await poll(() => page.clock.pauseAt(Date.now() + 30_000))
        const sent: string[] = []
        page.on('request', (request) => sent.push(new URL(request.url()).pathname))
        const show = (state: 'visible' | 'hidden'): Promise<void> =>
          page.evaluate(`
            Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true })
            document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))`)
        for (let time = 0; time < 4; time++) await poll(() => page.clock.runFor(15_000))
        const inAMinute = sent.splice(0).filter((path) => path.startsWith('/v2/api/'))
        assert.equal(inAMinute.filter(history).length, 4)
        assert.equal(inAMinute.filter((path) => path === '/v2/api/nodes').length, 2)
        assert.equal(inAMinute.length, 6, inAMinute.join())
        await show('hidden')
        await page.clock.runFor(120_000)
        assert.deepEqual(sent, [])
        await poll(() => show('visible'))
        assert.equal(sent.filter(history).length, 1)
      })
    })

    it('list the busiest clients, and set limits for one of them', async () => {
      const { id, name, get } = await machine('Busy partner')
      // Simulates another node that has counted requests in the previous minute.
      const nowMs = Date.now() - minuteMs - 10_000
      const counter = trafficCounter({
        db: auth.db,
        node: 'nod_other',
        now: () => nowMs,
        onError: (error) => assert.fail(String(error)),
      })
      for (const status of [200, 200, 404, 500]) {
        counter.count({ client: id, subject: id, address: '203.0.113.7', status })
      }
      await counter.close()
      await using({ expected: /412/ }, async ({ page, call }) => {
        await asAdmin(page, '/traffic?window=day')
        const row = page.getByRole('row', { name })
        await row.waitFor()
        assert.deepEqual((await row.getByRole('cell').allInnerTexts()).slice(2, 6), ['2', '1', '0', '1'])
        await assertAccessible(page)
        await page.getByRole('button', { name: `Limits of ${name}` }).click()
        await page.getByLabel('Requests', { exact: true }).fill('0')
        await page.getByLabel('Period in seconds').fill('60')
        await page.getByRole('button', { name: 'Save limits' }).click()
        assert.equal(await page.getByRole('dialog').count(), 1)
        await page.getByLabel('Requests', { exact: true }).fill('2')
        assert.equal((await call('PATCH', `/api/clients/${id}`, { name, firstParty: true })).status, 200)
        await assertAccessible(page)
        await page.getByRole('button', { name: 'Save limits' }).click()
        await page.getByText(`The limits of ${name} apply within 30 seconds`).waitFor()
        const statuses = []
        for (const _ of [1, 2, 3]) statuses.push((await get('/products')).status)
        assert.deepEqual(statuses, [200, 200, 429])
        await page.getByRole('button', { name: `Limits of ${name}` }).click()
        await page.getByText('2 requests in 60 seconds now apply').waitFor()
        await page.getByRole('button', { name: 'Cancel' }).click()
        await page.getByRole('navigation', { name: 'Traffic by' }).getByRole('link', { name: 'Addresses' }).click()
        await page.getByText('203.0.113.7').waitFor()
        await assertAccessible(page)
        await page.getByRole('link', { name: 'Limits of API keys' }).click()
        await page.getByText('There are no API keys').waitFor()
      })
    })

    it('find a request by its URN in the command palette, and by its id or with filters on the pages', async () => {
      const { id, name, get } = await machine('Lost partner')
      const problem = await get('/products/99999')
      const { instance, requestId } = JSON.parse(problem.body)
      assert.match(instance, /^urn:request:/)
      await eventually('the request is stored', async () => {
        const stored = auth.db.read.selectFrom('requestLog').select('id').where('requestId', '=', requestId)
        return (await stored.executeTakeFirst()) !== undefined
      })
      await using({}, async ({ page }) => {
        await asAdmin(page, `/requests?clientId=${id}`)
        await page.getByRole('link', { name: 'GET /products/99999' }).waitFor()
        await assertAccessible(page)
        await page.keyboard.press('Control+k')
        await page.getByRole('searchbox').fill(instance)
        await page.getByRole('menuitem', { name: `Request ${instance}` }).click()
        await page.getByRole('heading', { level: 1, name: 'Request', exact: true }).waitFor()
        for (const text of ['RESOURCE_NOT_FOUND', '404']) await page.getByText(text, { exact: true }).waitFor()
        await assertAccessible(page)
        await page.getByRole('link', { name: `${name} (${id})` }).click()
        await page.getByLabel('Status').selectOption('5xx')
        await page.getByText('No requests were found').waitFor()
        await page.getByLabel('Find a request').fill('not an id')
        await page.getByRole('button', { name: 'Find', exact: true }).click()
        await page.getByText('A request id has 8 to 64').waitFor()
        await page.getByLabel('Find a request').fill(requestId)
        await page.keyboard.press('Enter')
        await page.getByText('RESOURCE_NOT_FOUND').waitFor()
      })
    })

    it('if a request id is not found, say how long requests are kept', async () => {
      await using({ expected: /404/ }, async ({ page }) => {
        await asAdmin(page, '/requests/no-such-request')
        await page.getByText(/Requests are kept for 24 hours/).waitFor()
        await assertAccessible(page)
      })
    })

    it('are hidden from a user without the admin scope, and send no requests', async () => {
      const user = await auth.person()
      await using({}, async ({ page, requests }) => {
        await page.goto(`${auth.baseUrl}/console/`)
        await logIn(page, user)
        await settled(page)
        assert.equal(await page.getByRole('link', { name: 'Traffic' }).count(), 0)
        assert.deepEqual(
          requests().filter(({ path }) => /metrics|traffic|requests|nodes/.test(path)),
          [],
        )
        await page.goto(`${auth.baseUrl}/console/traffic`)
        await page.getByRole('heading', { name: 'You may not see this page' }).waitFor()
      })
    })
  })
})
