import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { authService } from '../oauth/real.ts'
import { skip } from '../support/chromium.ts'
import { forEachEngine } from '../support/engines.ts'
import { accessibilityFaults, chromiumBrowser, fitsIn, logIn, settled } from './browser.ts'
import { createWork, type Work, workSettings } from './work.ts'

const pathsIn = (page: Page) =>
  page
    .getByRole('navigation', { name: 'Pages' })
    .getByRole('link')
    .evaluateAll((links) =>
      links.map(
        (link) => new URL((link as unknown as { href: string }).href).pathname.replace(/^\/console/, '') || '/',
      ),
    )

/** Pages without a navigation entry, with data that `createWork` has created. */
const innerPages = ({ clientId, failing, reportId, requestId, user }: Work) => [
  '/access/clients/new',
  `/access/clients/${clientId}`,
  `/access/users/${user.userId}`,
  '/records/products',
  '/records/products/row/1',
  '/records/products/new',
  '/records/products/deleted',
  '/reports/new',
  `/reports/${reportId}`,
  '/webhooks/new',
  `/webhooks/${failing.id}`,
  `/webhooks/${failing.id}/deliveries/${failing.deliveryId}`,
  '/explorer?operation=createProduct',
  '/traffic?by=subject',
  `/requests/${requestId}`,
]

const failedOf = <Sent extends { status: number }>(sent: Sent[]) => sent.filter(({ status }) => status >= 400)

/** Returns the paths that belong neither to v2 nor to the service as a whole. */
const unexpectedIn = (sent: { path: string }[]) =>
  sent.map(({ path }) => path).filter((path) => !/^\/(v2\/|openapi\.json$|readyz$|livez$)/.test(path))

forEachEngine((engine) => {
  describe('the console in Chromium', { skip }, () => {
    const auth = authService(engine, workSettings)
    let work: Work
    before(async () => {
      work = await createWork(auth)
    })
    after(() => work?.close())
    const using = chromiumBrowser(() => auth.baseUrl)

    const admin = () => auth.person({ role: 'admin', name: 'Grace Hopper' })
    /** Visits every page in the navigation as an administrator; returns the paths that each page reads from the API. */
    const readsOfPages = async () => {
      const reads = new Map<string, string[]>()
      const person = await admin()
      await using({}, async ({ page, open, leave, requests }) => {
        await page.goto(`${auth.baseUrl}/console/`)
        await logIn(page, person)
        for (const path of await pathsIn(page)) {
          await leave()
          await open(path)
          reads.set(
            path,
            requests().flatMap(({ method, path: read }) => (method === 'GET' ? [read] : [])),
          )
        }
      })
      return reads
    }

    it('logs in through the service’s pages, returns to the requested page, and stores no token in the browser', async () => {
      const person = await admin()
      await using({}, async ({ page, open }) => {
        await page.goto(`${auth.baseUrl}/console/nowhere?of=interest`)
        await logIn(page, person)
        assert.equal(page.url(), `${auth.baseUrl}/console/nowhere?of=interest`)
        await open('/')
        const stored = await page.evaluate(() => Object.entries({ ...localStorage, ...sessionStorage }))
        // The router stores scroll positions.
        assert.deepEqual(
          stored.filter(([name]) => !name.startsWith('tsr-scroll-restoration')),
          [],
        )
        assert.doesNotMatch(JSON.stringify(stored), /eyJ|token|verifier/)
        await page.getByRole('button', { name: 'Sign out' }).click()
        await page.waitForURL(/\/oauth\/logout\?/)
        await page.getByRole('button', { name: 'Sign out' }).click()
        await page.getByLabel('Password').waitFor()
      })
    })

    it('shows every page without failed requests, horizontal overflow or serious accessibility violations', async () => {
      const person = await admin()
      await using({}, async ({ page, open, leave, requests }) => {
        await page.goto(`${auth.baseUrl}/console/`)
        await logIn(page, person)
        for (const path of [...(await pathsIn(page)), ...innerPages(work)]) {
          await page.setViewportSize({ width: 1440, height: 900 })
          await leave()
          await open(path)
          assert.equal(await page.getByRole('alert').count(), 0, path)
          const sent = requests()
          assert.deepEqual(failedOf(sent), [], path)
          assert.deepEqual(unexpectedIn(sent), [], path)
          // The elements are the same on both engines, so check them on one.
          if (engine.name === 'postgres') continue
          assert.deepEqual(await accessibilityFaults(page), [], path)
          await page.emulateMedia({ colorScheme: 'dark' })
          assert.deepEqual(await accessibilityFaults(page, 'color-contrast'), [], `${path}, dark`)
          await page.emulateMedia({ colorScheme: 'light' })
          for (const width of [768, 360]) await fitsIn(page, width)
        }
      })
    })

    it('offers a user only the pages whose requests the API permits; other pages show a refusal and send no requests', async () => {
      const [all, user] = [await readsOfPages(), await auth.person()]
      await using({}, async ({ page, open, leave, requests }) => {
        let authorization = ''
        page.on('request', (request) => {
          authorization = request.headers().authorization ?? authorization
        })
        await page.goto(`${auth.baseUrl}/console/reports`)
        await logIn(page, user)
        const own = await pathsIn(page)
        for (const [path, reads] of all) {
          await leave()
          await open(path)
          const refused = await page.getByRole('heading', { name: 'You may not see this page' }).count()
          assert.equal(refused, own.includes(path) ? 0 : 1, path)
          if (refused === 0) assert.deepEqual(failedOf(requests()), [], path)
          else {
            assert.deepEqual(requests(), [], path)
            const statuses: number[] = []
            for (const read of reads) {
              const response = await page.request.get(auth.baseUrl + read, { headers: { authorization } })
              statuses.push(response.status())
            }
            assert.ok(statuses.includes(403), `${path}: ${reads} get ${statuses}`)
          }
        }
        for (const path of innerPages(work)) {
          if (own.some((to) => to !== '/' && path.startsWith(to))) continue
          await leave()
          await open(path)
          await page.getByRole('heading', { name: 'You may not see this page' }).waitFor()
          assert.deepEqual(requests(), [], path)
        }
      })
    })

    it('finds a page by its name from the keyboard, and moves the focus to its title', async () => {
      const person = await admin()
      await using({}, async ({ page, open }) => {
        await page.goto(`${auth.baseUrl}/console/nowhere`)
        await logIn(page, person)
        await open('/nowhere')
        await page.keyboard.press('Control+k')
        await page.locator('input[type=search]:focus').waitFor()
        await page.keyboard.type('overv')
        await page.getByRole('menuitem', { name: 'Audit log' }).waitFor({ state: 'detached' })
        await page.keyboard.press('ArrowDown')
        await page.locator('[role=menuitem][data-focused]', { hasText: 'Overview' }).waitFor()
        await page.keyboard.press('Enter')
        await page.waitForURL(/\/console\/?$/)
        await settled(page)
        await page.locator('h1:focus', { hasText: 'Overview' }).waitFor()
      })
    })
  })
})
