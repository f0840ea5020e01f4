import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { authService } from '../oauth/real.ts'
import { forEachEngine } from '../support/engines.ts'
import { accessibilityFaults, chromiumBrowser, logIn, settled, skip, type Theme } from './browser.ts'

const pathsIn = (page: Page) =>
  page
    .getByRole('navigation', { name: 'Pages' })
    .getByRole('link')
    .evaluateAll((links) =>
      links.map(
        (link) => new URL((link as unknown as { href: string }).href).pathname.replace(/^\/console/, '') || '/',
      ),
    )

forEachEngine((engine) => {
  describe('the console in Chromium', { skip }, () => {
    const auth = authService(engine)
    const using = chromiumBrowser(() => auth.baseUrl)

    const admin = () => auth.person({ role: 'admin', name: 'Grace Hopper' })
    /** The paths of all pages, as an administrator sees them. */
    const allPaths = async () => {
      let paths: string[] = []
      const person = await admin()
      await using({}, async ({ page }) => {
        await page.goto(`${auth.baseUrl}/console/`)
        await logIn(page, person)
        paths = await pathsIn(page)
      })
      return paths
    }

    it('logs in through the service’s pages, returns to the requested page, and keeps no token in the browser', async () => {
      const person = await admin()
      await using({}, async ({ page, open }) => {
        await page.goto(`${auth.baseUrl}/console/nowhere?of=interest`)
        await logIn(page, person)
        assert.equal(page.url(), `${auth.baseUrl}/console/nowhere?of=interest`)
        await open('/')
        const stored = await page.evaluate(() => Object.entries({ ...localStorage, ...sessionStorage }))
        // The router remembers where pages were scrolled to.
        assert.deepEqual(
          stored.filter(([name]) => !name.startsWith('tsr-scroll-restoration')),
          [],
        )
        assert.doesNotMatch(JSON.stringify(stored), /eyJ|token|verifier/)
        await page.getByRole('button', { name: 'Sign out' }).click()
        await page.getByRole('button', { name: 'Sign out' }).click()
        await page.getByLabel('Password').waitFor()
      })
    })

    for (const colorScheme of ['light', 'dark'] as Theme[]) {
      it(`has no serious accessibility fault, failed request or overflow on any page (${colorScheme})`, async () => {
        const person = await admin()
        await using({ colorScheme }, async ({ page, open, requests }) => {
          await page.goto(`${auth.baseUrl}/console/`)
          await logIn(page, person)
          for (const path of await pathsIn(page)) {
            await page.setViewportSize({ width: 1440, height: 900 })
            await open(path)
            assert.deepEqual(await accessibilityFaults(page), [], path)
            assert.deepEqual(
              requests().filter(({ status }) => status >= 400),
              [],
              path,
            )
            for (const width of [768, 360]) {
              await page.setViewportSize({ width, height: 740 })
              const widths = await page.evaluate('[document.documentElement.scrollWidth, innerWidth]')
              assert.deepEqual(widths, [width, width], `${path} at ${width} px`)
            }
          }
        })
      })
    }

    it('offers a user only the pages that the API allows; other pages refuse before they ask the API', async () => {
      const [all, user] = [await allPaths(), await auth.person()]
      await using({}, async ({ page, open, requests }) => {
        await page.goto(`${auth.baseUrl}/console/`)
        await logIn(page, user)
        const own = await pathsIn(page)
        for (const path of all) {
          requests()
          await open(path)
          const refused = await page.getByRole('heading', { name: 'You may not see this page' }).count()
          assert.equal(refused, own.includes(path) ? 0 : 1, path)
          const sent = requests()
          if (refused) assert.deepEqual(sent, [], path)
          else
            assert.deepEqual(
              sent.filter(({ status }) => status >= 400),
              [],
              path,
            )
        }
      })
    })

    it('finds a page by its name from the keyboard', async () => {
      const person = await admin()
      await using({}, async ({ page, open }) => {
        await page.goto(`${auth.baseUrl}/console/nowhere`)
        await logIn(page, person)
        await open('/nowhere')
        await page.keyboard.press('Control+k')
        await page.getByRole('searchbox').waitFor()
        await page.keyboard.type('overv')
        await page.getByRole('menuitem', { name: 'Overview' }).waitFor()
        await page.keyboard.press('ArrowDown')
        await page.keyboard.press('Enter')
        await page.waitForURL(/\/console\/?$/)
        await settled(page)
        assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Overview')
      })
    })
  })
})
