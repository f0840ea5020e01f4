import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, describe, it } from 'node:test'
import type { Route } from 'playwright-core'
import { authService } from '../oauth/real.ts'
import { skip } from '../support/chromium.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { accessibilityFaults, chromiumBrowser, logIn } from './browser.ts'

forEachEngine((engine) => {
  describe('webhooks, reports and the API explorer in the console', { skip }, () => {
    const auth = authService(engine)
    const using = chromiumBrowser(() => auth.baseUrl)
    const closers: (() => unknown)[] = []
    after(() => {
      for (const close of closers) close()
    })

    /** Starts an endpoint whose response status the test sets. */
    const endpoint = async () => {
      const made = { status: 204, url: '', bodies: [] as string[] }
      const server = createServer(async (request, response) => {
        made.bodies.push(Buffer.concat(await request.toArray()).toString())
        response.writeHead(made.status, { 'x-reason': 'maintenance' }).end(made.status < 400 ? '' : '{"error":"down"}')
      })
      await once(server.listen(0, '127.0.0.1'), 'listening')
      closers.push(() => server.close().closeAllConnections())
      made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
      return made
    }

    it('webhooks: registers one, shows its secret and why a delivery failed, and sends the delivery again', async () => {
      const person = await auth.person({ role: 'admin' })
      const target = await endpoint()
      target.status = 503
      await using({ expected: /412/ }, async ({ page, open, call }) => {
        await page.goto(`${auth.baseUrl}/console/webhooks`)
        await logIn(page, person)
        await page.getByRole('link', { name: 'Register a webhook' }).first().click()
        await page.getByLabel('Address').fill(target.url)
        await page.getByLabel('Events').selectOption('product.*')
        await page.getByLabel('Description').fill('Stock')
        await page.getByRole('button', { name: 'Register' }).click()
        await page.getByText(/^whsec_/).waitFor()
        assert.deepEqual(await accessibilityFaults(page), [])
        await page.getByRole('link', { name: 'Go to the webhook' }).click()
        await page.getByRole('button', { name: 'Send a test' }).click()
        await page.getByLabel('Event').last().selectOption('product.created')
        await page.getByRole('button', { name: 'Send', exact: true }).click()
        // The service may already have retried the delivery.
        await page.getByText('http 503').first().waitFor()
        await page.getByText('Response', { exact: true }).first().click()
        await page.getByText('x-reason: maintenance').first().waitFor()
        await page.getByText('"error": "down"').first().waitFor()
        assert.deepEqual(await accessibilityFaults(page), [])
        target.status = 204
        await page.getByRole('button', { name: 'Send again' }).click()
        await page.getByText('Attempt 2').waitFor()
        await page.getByText('delivered', { exact: true }).waitFor()
        assert.equal(target.bodies[1], target.bodies[0])
        await page.clock.install()
        await open('/webhooks')
        await page.getByRole('link', { name: 'Stock' }).click()
        await page.getByRole('button', { name: 'Edit' }).click()
        await page.getByLabel('Description').fill('Warehouse')
        const path = `/api${new URL(page.url()).pathname.replace('/console', '')}`
        assert.equal((await call('PATCH', path, { description: 'Store', event: 'book.*' })).status, 200)
        await page.clock.runFor(15_000)
        await page.getByText('book.*').first().waitFor()
        await page.getByRole('button', { name: 'Save' }).click()
        const conflict = page.getByRole('dialog', { name: 'Someone else has changed this' })
        await conflict.getByRole('cell', { name: 'Store' }).waitFor()
        await conflict.getByRole('button', { name: 'Overwrite with yours' }).click()
        await page.getByRole('heading', { level: 1, name: 'Warehouse' }).waitFor()
        assert.equal((await call('GET', path)).body.event, 'book.*')
        const held = Promise.withResolvers<Route>()
        await page.route(/rotate-secret$/, (route) => held.resolve(route))
        await page.getByRole('button', { name: 'Rotate the secret' }).click()
        await page.getByRole('button', { name: 'Rotate', exact: true }).click()
        await page.getByRole('button', { name: 'Cancel', disabled: true }).waitFor()
        await page.keyboard.press('Escape')
        await (await held.promise).continue()
        await page.getByText(/^whsec_/).waitFor()
        await page.keyboard.press('Escape')
        await page.mouse.click(5, 5)
        await page.getByText(/^whsec_/).waitFor()
        await page.getByRole('button', { name: 'Done' }).click()
        await page.getByRole('button', { name: 'Pause' }).click()
        await page.getByRole('button', { name: 'Enable' }).waitFor()
        assert.deepEqual(await accessibilityFaults(page), [])
      })
    })

    it('reports: requests one with the form, shows its completion, downloads and deletes it', async () => {
      const person = await auth.person({ role: 'admin' })
      await using({}, async ({ page }) => {
        await page.goto(`${auth.baseUrl}/console/reports/new`)
        await logIn(page, person)
        await page.getByLabel('Report').selectOption('products')
        await page.getByLabel('Format').selectOption('ndjson')
        await page.getByLabel('name', { exact: true }).check()
        await page.getByLabel('Sort').selectOption('-price')
        assert.deepEqual(await accessibilityFaults(page), [])
        await page.getByRole('button', { name: 'Request' }).click()
        await page.getByText('completed', { exact: true }).waitFor()
        await page.getByText('"-price"').waitFor()
        const download = page.waitForEvent('download')
        await page.getByRole('button', { name: 'Download' }).click()
        assert.match((await download).suggestedFilename(), /\.ndjson$/)
        await page.getByRole('button', { name: 'Delete' }).click()
        await page.getByRole('button', { name: 'Delete the report' }).click()
        await page.getByText('There are no reports yet').waitFor()
      })
    })

    it('API explorer: sends a request as the user, copies it without the token, and aborts it when the user leaves the page', async () => {
      const person = await auth.person({ role: 'admin' })
      await using({}, async ({ page, context }) => {
        await context.grantPermissions(['clipboard-read', 'clipboard-write'])
        await page.goto(`${auth.baseUrl}/console/explorer?operation=createProduct`)
        await logIn(page, person)
        await page.getByRole('button', { name: 'Send' }).click()
        await page.getByText('201 Created').waitFor()
        await page.getByText(/x-request-id: .+/).waitFor()
        assert.deepEqual(await accessibilityFaults(page), [])
        for (const [name, start] of [
          ['Copy as curl', 'curl'],
          ['Copy as TypeScript', 'const'],
        ] as const) {
          await page.getByRole('button', { name }).click()
          const copied = await eventually(`the clipboard begins with ${start}`, async () => {
            const text = String(await page.evaluate('navigator.clipboard.readText()'))
            return text.startsWith(start) && text
          })
          assert.match(copied, /\/products/)
          assert.match(copied, /TOKEN/)
          assert.doesNotMatch(copied, /eyJ/)
        }
        await page.route('**/products', () => undefined)
        await page.getByRole('button', { name: 'Send' }).click()
        await page.getByRole('button', { name: 'Stop' }).click()
        await page.getByText('Stopped before the response arrived.').waitFor()
        assert.equal(await page.locator('[role=alert].wrong').count(), 0)
        await page.getByRole('button', { name: 'Send' }).click()
        const ended = page.waitForEvent('requestfailed')
        await page.getByRole('link', { name: /DELETE (\/v\d+)?\/products\/\{id\}$/ }).click()
        assert.equal((await ended).failure()?.errorText, 'net::ERR_ABORTED')
      })
    })
  })
})
