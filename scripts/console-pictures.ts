import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { chromium, type Page } from 'playwright-core'
import { logIn, settled } from '../test/console/browser.ts'
import { handsOn, tasks } from '../test/console/tasks.ts'
import { createWork, workSettings } from '../test/console/work.ts'
import { person, realServer } from '../test/oauth/real.ts'
import { chromiumOptions } from '../test/support/chromium.ts'

const usage = `Makes the pictures in docs/images/console: starts a service with some work, carries out the tasks of docs/console.md in
Chromium, and takes a picture of each.

  node scripts/console-pictures.ts [IMAGE…]

  IMAGE   only these pictures, such as overview or sessions
`

const folder = fileURLToPath(new URL('../docs/images/console/', import.meta.url))
const viewport = { width: 1120, height: 660 }
/** The margin below the content, in pixels. */
const margin = 28

const { values, positionals: wanted } = parseArgs({ allowPositionals: true, options: { help: { type: 'boolean' } } })
if (values.help) {
  process.stdout.write(usage)
  process.exit()
}

// Set the environment of this process, because GET /api/settings reads it.
Object.assign(process.env, workSettings)
const data = mkdtempSync(join(tmpdir(), 'plinth-pictures-'))
const place = { url: `file:${join(data, 'plinth.db')}`, remove: async () => rmSync(data, { recursive: true }) }
const real = await realServer({ migratedPlace: async () => place }, workSettings)
const work = await createWork(real)
await work.backUp()
const browser = await chromium.launch(chromiumOptions)
try {
  await takePictures(await browser.newPage({ ignoreHTTPSErrors: true, viewport, reducedMotion: 'reduce' }))
} finally {
  await browser.close()
  work.close()
  await real.close()
}

async function takePictures(page: Page): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const devTools = await page.context().newCDPSession(page)
  const take = async (image: string) => {
    await settled(page)
    // Wait until all toasts have disappeared, because pictures should not show any.
    await page.locator('.toast').first().waitFor({ state: 'detached' })
    const clip = { x: 0, y: Number(await page.evaluate('scrollY')), ...(await sizeOf(page)), scale: 1 }
    const { data } = await devTools.send('Page.captureScreenshot', { format: 'webp', quality: 80, clip })
    writeFileSync(join(folder, `${image}.webp`), Buffer.from(data, 'base64'))
    process.stdout.write(`${image}.webp\n`)
  }
  const isWanted = (image: string) => wanted.length === 0 || wanted.includes(image)
  await page.goto(`${real.baseUrl}/console/`)
  await logIn(page, await person(real, { role: 'admin', name: 'Grace Hopper' }))
  if (isWanted('overview')) {
    await page.setViewportSize({ width: 1440, height: 860 })
    await page.locator('canvas').nth(5).waitFor()
    await take('overview')
    await page.setViewportSize(viewport)
  }
  for (const { image, run } of tasks.filter((task) => isWanted(task.image))) {
    await page.goto(`${real.baseUrl}/console/`)
    await settled(page)
    await run(handsOn(page, () => take(image)).hands, work)
  }
}

/** Returns the size of the viewport, without the empty space below the content. */
async function sizeOf(page: Page): Promise<{ width: number; height: number }> {
  const { width, height } = page.viewportSize() ?? viewport
  const content = await page.locator('main .page > *').last().boundingBox()
  const hasDialog = (await page.getByRole('dialog').count()) > 0
  if (content === null || hasDialog) return { width, height }
  return { width, height: Math.min(height, Math.round(content.y + content.height) + margin) }
}
