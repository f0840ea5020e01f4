// Runs in its own process: starts a browser, which takes a long time.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { type Browser, chromium, type Locator, type Page, type Response } from 'playwright-core'
import { chromiumOptions, maxWaitMs, skip } from '../support/chromium.ts'
import { eventually, type RealService, realService } from '../support/service.ts'

describe('GET /docs in a browser', { skip }, () => {
  let service: RealService
  let browser: Browser
  before(async () => {
    service = await realService()
    await service.start()
    browser = await chromium.launch(chromiumOptions)
  })
  after(async () => {
    await browser?.close()
    await service?.remove()
  })

  /** Opens the page at an operation, and records every error and the host of every request. */
  async function open(viewport: { width: number; height: number }, javaScriptEnabled = true) {
    const base = `https://localhost:${service.port}`
    const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport, javaScriptEnabled })
    context.setDefaultTimeout(maxWaitMs)
    const page = await context.newPage()
    const wrong: string[] = []
    const hosts = new Set<string>()
    page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()))
    page.on('pageerror', (error) => wrong.push(error.message))
    page.on('requestfailed', (request) => wrong.push(`${request.url()}: ${request.failure()?.errorText}`))
    page.on('request', (request) => request.url().startsWith('data:') || hosts.add(new URL(request.url()).host))
    await page.goto(`${base}/docs#plinth/tag/users/GET/users`)
    const checked = () => {
      assert.deepEqual(wrong, [])
      assert.deepEqual([...hosts], [`localhost:${service.port}`], 'no other host is asked')
    }
    return { page, wrong, checked, close: () => context.close() }
  }

  /** Opens the dialog for sending a request to the operation. */
  async function client(page: Page): Promise<Locator> {
    await page.getByRole('button', { name: 'Test Request' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Send', exact: false }).first().waitFor()
    return dialog
  }

  async function send(page: Page, dialog: Locator): Promise<Response> {
    const answered = page.waitForResponse((response) => new URL(response.url()).pathname === '/users')
    await dialog.getByRole('button', { name: /^Send get request/ }).click()
    return answered
  }

  for (const [device, viewport] of [
    ['a desktop', { width: 1400, height: 1000 }],
    ['a phone', { width: 390, height: 844 }],
  ] as const) {
    it(`shows an operation on ${device}, with no overflow, no errors and no requests to other hosts`, async () => {
      const { page, checked, close } = await open(viewport)
      // Operations are rendered when they scroll into view.
      const heading = page.getByRole('heading', { name: 'List users' }).first()
      const isShown = async () => {
        if (await heading.isVisible()) return true
        await page.evaluate('window.scrollBy(0, 400)')
        return false
      }
      await eventually('the first list', isShown)
      const width = await page.evaluate('document.documentElement.scrollWidth')
      assert.ok(Number(width) <= viewport.width, `it is ${width} wide`)
      checked()
      await close()
    })
  }

  it('200 for a request sent with client credentials', async () => {
    const { page, wrong, checked, close } = await open({ width: 1400, height: 1000 })
    const dialog = await client(page)
    await dialog.getByText('clientCredentials').click()
    await dialog.locator('[data-placeholder="12345"]').fill('boot')
    await dialog.getByPlaceholder('XYZ123').fill('boot secret')
    const authorize = async () => {
      const granted = page.waitForResponse((response) => response.url().endsWith('/oauth/token'))
      await dialog.getByRole('button', { name: 'Authorize' }).click()
      return (await granted).status() === 200
    }
    // The page needs a moment to apply the entered credentials and the granted token.
    await eventually('a token', authorize)
    const answered = async () => {
      const answer = await send(page, dialog)
      return answer.status() === 200 && answer
    }
    const answer = await eventually('an answer to who has the token', answered)
    wrong.splice(0, wrong.length, ...wrong.filter((text) => !text.includes('status of 401')))
    assert.deepEqual(await answer.json(), [])
    checked()
    await close()
  })

  it('200 for a request by an administrator who logged in through Authorize', async () => {
    const [email, password] = ['ada@plinth.test', 'violet stapler orbit kettle 42']
    const made = spawnSync(
      process.execPath,
      ['bin/plinth.js', 'users', 'set-password', email, '--name', 'Ada', '--admin'],
      { input: password, env: { ...process.env, PLINTH_DATA_DIR: service.dataDir }, encoding: 'utf8' },
    )
    assert.equal(made.status, 0, made.stderr)
    const { page, checked, close } = await open({ width: 1400, height: 1000 })
    const opened = page.waitForEvent('popup')
    await page.getByRole('button', { name: 'Authorize' }).first().click()
    const popup = await opened
    await popup.getByLabel('E-mail address').fill(email)
    await popup.getByLabel('Password').fill(password)
    await popup.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('Access Token:').first().waitFor()
    assert.ok(popup.isClosed())
    const answer = await send(page, await client(page))
    assert.equal(answer.status(), 200)
    assert.equal((await answer.json())[0].email, email)
    checked()
    await close()
  })

  it('200 for a request sent with a pasted token', async () => {
    const { page, checked, close } = await open({ width: 1400, height: 1000 })
    const dialog = await client(page)
    await dialog.getByText('Selected Auth Type').click()
    for (const scheme of ['bearer', 'oauth2']) await page.getByRole('option', { name: scheme }).click()
    await dialog.getByText('Selected Auth Type: bearer').click()
    await page.getByRole('option', { name: 'bearer' }).waitFor({ state: 'hidden' })
    await dialog.getByPlaceholder('Token').fill(await service.token())
    assert.equal((await send(page, dialog)).status(), 200)
    checked()
    await close()
  })

  it('shows the document of the selected version', async () => {
    const { page, checked, close } = await open({ width: 1400, height: 1000 })
    await page.getByRole('heading', { name: 'List users' }).first().waitFor()
    await page
      .getByRole('button', { name: /Plinth/ })
      .first()
      .click()
    await page.getByRole('option', { name: 'Plinth v2' }).click()
    await page.getByRole('heading', { name: 'Plinth v2' }).first().waitFor()
    checked()
    await close()
  })

  it('links to the OpenAPI documents if scripts are disabled', async () => {
    const { page, close } = await open({ width: 390, height: 844 }, false)
    const links = await page.getByRole('link').all()
    const targets = await Promise.all(links.map((link) => link.getAttribute('href')))
    assert.deepEqual(targets, ['/openapi.json', '/v1/openapi.json', '/v2/openapi.json'])
    await close()
  })
})
