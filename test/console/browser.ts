import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { chromiumOptions, maxWaitMs } from '../support/chromium.ts'
import { eventually } from '../support/service.ts'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export type Theme = 'light' | 'dark'

export type Call = (
  method: string,
  path: string,
  body?: object,
) => Promise<{ status: number; body: Record<string, unknown> }>

/** A browser window with the console. */
export interface Window {
  page: Page
  context: BrowserContext
  /** Returns the API requests since the previous call of this function, except those that got a 503. */
  requests: () => { method: string; path: string; status: number }[]
  /** Sends a request with the access token of the page. */
  call: Call
  /** Opens a path of the console, and waits until the page and its data are shown. */
  open: (path: string) => Promise<void>
  /** Navigates to a blank page, and forgets the requests of the previous one. */
  leave: () => Promise<void>
}

/** Matches the error that Chromium logs for a 503. The console retries a request that an overloaded service refuses. */
const busy = /^Failed to load resource: .* status of 503\b/

/**
 * Starts Chromium before the tests. Returns a function that runs a test in a new window; it fails if the page logs an
 * error or a warning, throws, or violates its content security policy.
 */
export function chromiumBrowser(baseUrl: () => string) {
  let chrome: Browser
  before(async () => {
    chrome = await chromium.launch(chromiumOptions)
  })
  after(() => chrome?.close())
  return async (
    { colorScheme = 'light' as Theme, width = 1440, expected = /^$/ },
    work: (window: Window) => Promise<void>,
  ) => {
    const viewport = { width, height: 900 }
    const context = await chrome.newContext({ ignoreHTTPSErrors: true, colorScheme, viewport, reducedMotion: 'reduce' })
    context.setDefaultTimeout(maxWaitMs)
    const page = await context.newPage()
    const faults: string[] = []
    const failed: string[] = []
    const note = (text: string) => !expected.test(text) && !busy.test(text) && faults.push(text)
    page.on('console', (message) => ['error', 'warning'].includes(message.type()) && note(message.text()))
    page.on('pageerror', (error) => note(String(error)))
    const requests: { method: string; path: string; status: number }[] = []
    page.on('response', (response) => {
      const { pathname, search } = new URL(response.url())
      if (/^\/(console|oauth|\.well-known)\b/.test(pathname) || response.status() === 503) return
      requests.push({ method: response.request().method(), path: pathname + search, status: response.status() })
    })
    let authorization = ''
    page.on('request', (request) => {
      authorization = request.headers().authorization ?? authorization
    })
    const call: Call = (method, path, body) =>
      eventually(`a response to ${method} ${path} other than 503`, async () => {
        const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
        const headers = { authorization, 'content-type': type }
        const data = body && { data: JSON.stringify(body) }
        const response = await page.request.fetch(baseUrl() + path, { method, headers, ...data })
        const text = await response.text()
        return response.status() !== 503 && { status: response.status(), body: text === '' ? {} : JSON.parse(text) }
      })
    const open = async (path: string) => {
      await page.goto(`${baseUrl()}/console${path}`)
      await settled(page)
    }
    const leave = async () => {
      await page.goto('about:blank')
      requests.splice(0)
    }
    page.on('requestfailed', (request) => failed.push(`${request.url()}: ${request.failure()?.errorText}`))
    try {
      await work({ page, context, open, leave, call, requests: () => requests.splice(0) })
    } catch (error) {
      const shown = await page.locator('body').innerText().catch(String)
      throw new Error(`${page.url()} shows:\n${shown}\nfailed requests: ${failed.join(', ')}`, { cause: error })
    } finally {
      await context.close()
    }
    assert.deepEqual(faults, [])
  }
}

/** Waits until a page of the console shows its title and no loading state. */
export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor()
  await page.locator('.loading').first().waitFor({ state: 'detached' })
}

/** Sets the width of the window, and waits until nothing on the page is wider. */
export async function fitsIn(page: Page, width: number): Promise<void> {
  await page.setViewportSize({ width, height: 800 })
  await eventually(`${page.url()} fits in ${width} px`, async () => {
    const widths = await page.evaluate('[document.documentElement.scrollWidth, innerWidth]')
    return isDeepStrictEqual(widths, [width, width])
  })
}

/**
 * Logs in through the service's own pages, and waits for the console. Makes up to three attempts, because the login
 * page opens again if a busy service did not accept a login.
 */
export async function logIn(page: Page, { email, password }: { email: string; password: string }): Promise<void> {
  // Exact, because pages of the console have a filter "Name or e-mail address".
  const address = page.getByLabel('E-mail address', { exact: true })
  const pages = page.getByRole('navigation', { name: 'Pages' })
  for (let logins = 0; logins < 3; logins++) {
    await address.or(pages).first().waitFor({ state: 'attached' })
    if ((await pages.count()) > 0) break
    await address.fill(email)
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await address.waitFor({ state: 'detached' })
  }
  await pages.waitFor({ state: 'attached' })
  await settled(page)
}

interface Violation {
  id: string
  impact: string
  nodes: { html: string; failureSummary: string }[]
}

interface Axe {
  run: (options: { runOnly?: string[] }) => Promise<{ violations: Violation[] }>
}

/** Returns the serious and critical findings of axe-core on the page, as text; `rules` restricts the check to these. */
export async function accessibilityFaults(page: Page, ...rules: string[]): Promise<string[]> {
  // Evaluated through the debugger, to which the page's content security policy does not apply.
  await page.evaluate(axe)
  const found = await page.evaluate(async (runOnly) => {
    const { axe } = globalThis as unknown as { axe: Axe }
    return (await axe.run(runOnly.length > 0 ? { runOnly } : {})).violations
  }, rules)
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`))
}
