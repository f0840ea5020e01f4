import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { authService, type Real } from '../oauth/real.ts'
import { skip } from '../support/chromium.ts'
import { onSqlite } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { chromiumBrowser, logIn } from './browser.ts'

const retired = { PLINTH_VERSIONS: JSON.stringify({ v1: { status: 'retired', successor: 'v2' } }) }

/** Returns a function that sends POST requests as a machine client with every scope. */
async function machine(auth: ReturnType<typeof authService> & Pick<Real, 'baseUrl'>) {
  const { id, secret } = await auth.client({ name: 'Shop', grants: ['client_credentials'], redirectUris: [] })
  const form = { grant_type: 'client_credentials', client_id: id, client_secret: secret ?? '' }
  const { access_token: token } = JSON.parse((await auth.postForm('/oauth/token', form)).text)
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return async (path: string, body: object) => {
    const response = await auth.send(path, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.ok(response.statusCode < 300, await response.body.text())
    await response.body.dump()
  }
}

onSqlite((engine) => {
  describe('the console of a service that has retired v1', { skip }, () => {
    const auth = authService(engine, retired)
    const using = chromiumBrowser(() => auth.baseUrl)

    it('reads and changes data only through v2, without failed requests', async () => {
      const person = await auth.person({ role: 'admin', name: 'Grace Hopper' })
      const post = await machine(auth)
      // With 105 rows, the table has two pages.
      for (let n = 1; n <= 105; n++) await post('/v2/products', { name: `Lamp ${n}`, price: n })
      await post('/v2/api/webhooks', { event: '*', callbackUrl: 'http://127.0.0.1:9/', description: 'Stock' })
      await using({}, async ({ page, open, requests }) => {
        await page.goto(`${auth.baseUrl}/console/`)
        await logIn(page, person)
        await open('/records')
        await page.getByRole('main').getByRole('link', { name: 'Products', exact: true }).click()
        const grid = page.getByRole('grid')
        const box = page.locator('.record-grid')
        await grid.getByText('Lamp 1', { exact: true }).waitFor()
        for (const last of [100, 105]) {
          await eventually(`row ${last} is shown`, async () => {
            // Scroll again in each attempt, because reading the second page makes the table longer.
            await box.evaluate((element) => element.scrollTo(0, element.scrollHeight))
            return grid.getByText(`Lamp ${last}`, { exact: true }).isVisible()
          })
        }
        await open('/records/products/row/1')
        await page.getByRole('button', { name: 'Edit' }).click()
        await page.getByLabel('Name').fill('Desk lamp')
        await page.getByRole('button', { name: 'Save' }).click()
        await page.getByRole('heading', { name: 'Desk lamp' }).waitFor()
        await open('/webhooks')
        await page.getByRole('link', { name: 'Stock' }).click()
        await page.getByText('http://127.0.0.1:9/').first().waitFor()
        for (const path of [
          '/traffic',
          '/requests',
          '/reports',
          '/access/users',
          '/access/clients',
          '/audit',
          '/nodes',
        ])
          await open(path)
        await open('/versions')
        await page.getByText('retired', { exact: true }).waitFor()
        const sent = requests()
        assert.deepEqual(
          sent.filter(({ status, path }) => status >= 400 || !/^\/(v2\/|openapi\.json$)/.test(path)),
          [],
        )
      })
    })

    it('sends requests from the explorer to v2 operations and to unversioned operations', async () => {
      const person = await auth.person({ role: 'admin' })
      await using({}, async ({ page, open, requests }) => {
        await page.goto(`${auth.baseUrl}/console/explorer?operation=listProducts`)
        await logIn(page, person)
        await open('/explorer?operation=listProducts')
        await page.getByRole('button', { name: 'Send' }).click()
        // The explorer shows the body unchanged.
        await page.getByText('"items": [').waitFor()
        await page.getByText('/v2/products', { exact: true }).first().waitFor()
        await open('/explorer?operation=livez')
        requests()
        await page.getByRole('button', { name: 'Send' }).click()
        await page.getByText('200 OK').waitFor()
        assert.deepEqual(requests(), [{ method: 'GET', path: '/livez', status: 200 }])
      })
    })
  })
})
