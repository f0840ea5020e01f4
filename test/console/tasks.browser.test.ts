import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { authService } from '../oauth/real.ts'
import { skip } from '../support/chromium.ts'
import { forEachEngine } from '../support/engines.ts'
import { pageOf } from '../support/pages.ts'
import { chromiumBrowser, logIn, settled } from './browser.ts'
import { handsOn, tasks } from './tasks.ts'
import { createWork, type Work, workSettings } from './work.ts'

const maxClicks = 5
const sections = pageOf('console.md').split(/^### /m)

/** Returns the bold texts in the steps of a task in docs/console.md: the elements to click, in order. */
function documentedClicks(title: string): string[] {
  const section = sections.find((text) => text.startsWith(`${title}\n`)) ?? ''
  const steps = section.split('\n').filter((line) => /^(\d+\. | {3})/.test(line))
  return [...steps.join('\n').matchAll(/\*\*(.+?)\*\*/g)].map(([, text]) => text as string)
}

forEachEngine((engine) => {
  describe('the tasks in docs/console.md', { skip }, () => {
    const auth = authService(engine, workSettings)
    let work: Work
    before(async () => {
      work = await createWork(auth)
      await work.backUp()
    })
    after(() => work?.close())
    const using = chromiumBrowser(() => auth.baseUrl)

    it('each take at most five clicks from the overview, exactly as documented', async () => {
      const person = await auth.person({ role: 'admin', name: 'Grace Hopper' })
      await using({}, async ({ page }) => {
        await page.goto(`${auth.baseUrl}/console/`)
        await logIn(page, person)
        for (const { title, run, check } of tasks) {
          await page.getByRole('link', { name: 'Overview', exact: true }).click()
          await settled(page)
          const { hands, clicked } = handsOn(page, async () => {})
          await run(hands, work)
          await check?.(work)
          assert.ok(clicked.length <= maxClicks, `${title}: ${clicked}`)
          assert.deepEqual(documentedClicks(title), clicked, title)
        }
      })
    })
  })
})
