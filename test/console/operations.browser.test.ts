import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { verifyAudit } from '../../src/audit/verify.ts'
import { authService } from '../oauth/real.ts'
import { skip } from '../support/chromium.ts'
import { forEachEngine } from '../support/engines.ts'
import { accessibilityFaults, chromiumBrowser, logIn, settled } from './browser.ts'

const passphrase = 'correct horse battery staple'
const env = {
  PLINTH_BACKUP: '0 3 * * *',
  PLINTH_BACKUP_PASSPHRASE: passphrase,
  PLINTH_VERSIONS: JSON.stringify({
    v1: { status: 'deprecated', deprecatedAt: '2026-01-01', sunsetAt: '2099-12-01', successor: 'v2' },
  }),
}
forEachEngine((engine) => {
  describe('the pages about operations', { skip }, () => {
    // The service reports the source of each setting from the environment of its process.
    const earlier = Object.fromEntries(Object.keys(env).map((name) => [name, process.env[name]]))
    before(() => {
      Object.assign(process.env, env)
    })
    after(() => {
      for (const [name, value] of Object.entries(earlier)) {
        if (value === undefined) Reflect.deleteProperty(process.env, name)
        else process.env[name] = value
      }
    })
    const auth = authService(engine, env)
    const using = chromiumBrowser(() => auth.baseUrl)

    /** Logs an administrator in at the overview, and runs the test. */
    const fromOverview = async (
      work: (page: Page, click: (role: Role, name: string | RegExp) => Promise<void>) => unknown,
    ) => {
      const admin = await auth.person({ role: 'admin', name: 'Grace Hopper' })
      await using({}, async ({ page }) => {
        await page.goto(`${auth.baseUrl}/console/`)
        await logIn(page, admin)
        await work(page, async (role, name) => {
          await page.getByRole(role, { name, exact: true }).first().click()
          if (role === 'link') await settled(page)
        })
      })
    }
    type Role = 'link' | 'button'
    const said = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor()
    const assertAccessible = async (page: Page) => assert.deepEqual(await accessibilityFaults(page), [])

    it('health: shows findings with suggested fixes and the disk usage, and runs the deep checks', async () => {
      await fromOverview(async (page, click) => {
        await click('link', 'Health')
        await said(page, 'PLINTH_BACKUP_PASSPHRASE can be guessed')
        await said(page, /What to do: Use a random value/)
        await page
          .locator('.facts')
          .getByText(/Valid for \d+ days/)
          .waitFor()
        await said(page, /GB free of/)
        await page.getByRole('region', { name: 'Files and folders' }).getByText('backups', { exact: true }).waitFor()
        await click('button', /^Show all \d+ tables$/)
        await page.getByRole('region', { name: 'Tables of the database' }).getByText('audit_entries').waitFor()
        await said(page, 'They have not been run yet.')
        await assertAccessible(page)
        await click('button', 'Run deep checks')
        await said(page, /^Last run .+ on /)
        await click('link', 'With the last deep checks')
        await page.locator('.tabs [aria-current="page"]', { hasText: 'With the last deep checks' }).waitFor()
        await page.getByText(/checks passed$/).click()
        await said(page, /^\d+ entries of \d+ verified$/)
        await assertAccessible(page)
      })
    })

    it('backups: makes a backup, verifies and downloads it, and shows the command that verifies it', async () => {
      await fromOverview(async (page, click) => {
        await click('link', 'Backups')
        await said(page, 'There are no backups yet')
        await assertAccessible(page)
        await click('button', 'Back up now')
        await said(page, 'The newest backup has not been checked.')
        await click('button', 'Verify the newest backup')
        await said(page, 'The newest backup is complete and unaltered.')
        await assertAccessible(page)
        const download = page.waitForEvent('download')
        await click('button', /^Download plinth-requested-/)
        const file = await download
        assert.match(
          readFileSync(await file.path())
            .subarray(0, 21)
            .toString(),
          /^age-encryption\.org\/v1$/,
        )
        await said(page, `npx plinth backup --verify ${file.suggestedFilename()}`)
      })
    })

    it('versions: lists the clients and webhooks that must move before v1 is retired, and the setting that retires it', async () => {
      const scopes = ['webhooks:write', 'reports:read']
      const { id, secret } = await auth.client({ name: 'Billing', scopes, grants: ['client_credentials'] })
      const answer = await auth.postForm('/oauth/token', {
        ...{ grant_type: 'client_credentials', client_id: id, client_secret: secret ?? '' },
      })
      const authorization = `Bearer ${JSON.parse(answer.text).access_token}`
      const body = JSON.stringify({ event: 'report.completed', callbackUrl: 'http://127.0.0.1:9/hook', version: 'v1' })
      const headers = { authorization, 'content-type': 'application/json' }
      const registered = await auth.send('/v2/api/webhooks', { method: 'POST', headers, body })
      assert.equal(registered.statusCode, 201, await registered.body.text())
      const call = { version: 'v1', clientId: id, calls: 1_204, lastCallAt: new Date().toISOString() }
      await auth.db.write((tx) => tx.insertInto('versionCalls').values(call).execute())
      await fromOverview(async (page, click) => {
        await click('link', 'Versions')
        await said(page, '1 client must move first.')
        await page.getByRole('row', { name: /Billing.+1,204/ }).waitFor()
        await page.getByRole('row', { name: /whk_.+report\.completed.+Billing/ }).waitFor()
        await said(page, /^\{"v1":\{"status":"retired"/)
        await assertAccessible(page)
        await click('link', 'Who must move before v2 retires?')
        await said(page, 'The calls to v2 are not counted, because it is active.')
        await click('link', 'Who must move before v1 retires?')
        await click('link', 'Billing')
        await page.getByRole('heading', { level: 1, name: 'Billing' }).waitFor()
      })
    })

    it('audit log: filters and exports entries, and verifies the log against an earlier checkpoint', async () => {
      await fromOverview(async (page, click) => {
        await click('link', 'Audit log')
        await said(page, 'The log has not been verified yet.')
        await page.getByLabel('Event').selectOption('client.created')
        await click('button', 'Search')
        await page
          .getByRole('row', { name: /login\.succeeded/ })
          .first()
          .waitFor({ state: 'detached' })
        await page
          .getByRole('row', { name: /client\.created/ })
          .getByText('name: Console')
          .first()
          .waitFor()
        await assertAccessible(page)
        const download = page.waitForEvent('download')
        await click('button', 'Export these entries')
        const lines = readFileSync(await (await download).path(), 'utf8')
          .trimEnd()
          .split('\n')
        assert.deepEqual([...new Set(lines.map((line) => JSON.parse(line).event))], ['client.created'])
        const earlier = await verifyAudit(auth.db, auth.sealer)
        assert.ok(earlier.whole)
        for (const [hash, outcome] of [
          [earlier.hash, /^The audit log is intact: [\d,]+ entries$/],
          ['A'.repeat(43), /^The audit log was altered: entry \d+/],
        ] as const) {
          await click('button', 'Verify the log')
          await page.getByLabel('Earlier checkpoint').fill(`${earlier.sequence}:${hash}`)
          await assertAccessible(page)
          await click('button', 'Verify')
          await said(page, outcome)
        }
      })
    })

    it('settings: filters by name and source, and hides secrets', async () => {
      await fromOverview(async (page, click) => {
        await click('link', 'Settings')
        await page.getByLabel('Filter').fill('passphrase backup')
        await page.getByRole('row', { name: /PLINTH_BACKUP_PASSPHRASE .+set, hidden.+environment/ }).waitFor()
        assert.ok(!(await page.content()).includes(passphrase))
        await page.getByLabel('Filter').fill('')
        await page.getByLabel('Source').selectOption('environment')
        await page.getByRole('row', { name: /PLINTH_BACKUP .+0 3 \* \* \*/ }).waitFor()
        await assertAccessible(page)
        await page.getByLabel('Filter').fill('no such setting')
        await said(page, 'No setting matches')
      })
    })

    it('nodes: shows the responding process and the result of the checks', async () => {
      await fromOverview(async (page, click) => {
        await click('link', 'Nodes')
        await page.getByRole('row', { name: new RegExp(`${process.pid} this node live`) }).waitFor()
        await said(page, /checks passed$/)
        await assertAccessible(page)
      })
    })

    it('are not shown to a user without the required scopes', async () => {
      const person = await auth.person()
      await using({}, async ({ page, requests }) => {
        await page.goto(`${auth.baseUrl}/console/backups`)
        await logIn(page, person)
        await page.getByRole('heading', { level: 1, name: 'You may not see this page' }).waitFor()
        for (const name of ['Health', 'Backups', 'Nodes', 'Versions', 'Audit log', 'Settings']) {
          assert.equal(await page.getByRole('link', { name, exact: true }).count(), 0, name)
        }
        assert.deepEqual(requests(), [])
      })
    })
  })
})
