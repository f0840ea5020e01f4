import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { authService, codeFlow, type Person } from '../oauth/real.ts'
import { skip } from '../support/chromium.ts'
import { forEachEngine } from '../support/engines.ts'
import { accessibilityFaults, type Call, chromiumBrowser, logIn, settled } from './browser.ts'

forEachEngine((engine) => {
  describe('the pages about access', { skip }, () => {
    const auth = authService(engine)
    const using = chromiumBrowser(() => auth.baseUrl)

    /** Opens a page, logs in as an administrator, and runs the test. */
    const asAdmin = async (path: string, work: (page: Page, call: Call) => Promise<void>, expected = /^$/) => {
      const admin = await auth.person({ role: 'admin', name: 'Grace Hopper' })
      await using({ expected }, async ({ page, call }) => {
        await page.goto(`${auth.baseUrl}/console${path}`)
        await logIn(page, admin)
        await settled(page)
        await work(page, call)
      })
    }
    const press = (page: Page, name: string | RegExp) => page.getByRole('button', { name, exact: true }).click()
    const title = (page: Page, name: string | RegExp) => page.getByRole('heading', { level: 1, name }).waitFor()
    const assertAccessible = async (page: Page) => assert.deepEqual(await accessibilityFaults(page), [])
    const said = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor()
    const token = (id: string, secret: string) =>
      auth.postForm('/oauth/token', { grant_type: 'client_credentials', client_id: id, client_secret: secret })

    it('clients: creates, edits and revokes a client, and rotates its secret', async () => {
      await asAdmin(
        '/access/clients',
        async (page, call) => {
          await page.getByRole('link', { name: 'New client' }).click()
          await title(page, 'New client')
          await page.getByLabel('Client id').fill(`partner-${engine.name}`)
          await page.getByLabel('Name').fill('Partner')
          await press(page, 'Create client')
          await said(page, 'Scopes: must contain at least one scope')
          await page.getByRole('checkbox', { name: 'reports:read' }).check()
          await press(page, 'Add a label')
          await page.getByLabel('Key of label 1').fill('tenant')
          await page.getByLabel('Value of label 1').fill('north')
          await press(page, 'Create client')
          await title(page, 'Partner was registered')
          await assertAccessible(page)
          const id = `partner-${engine.name}`
          const first = String(await page.locator('.notice code').textContent())
          const granted = await token(id, first)
          assert.deepEqual([granted.status, JSON.parse(granted.text).scope], [200, 'reports:read'])
          await page.getByRole('link', { name: 'Go to the client' }).click()
          await title(page, /^Partner$/)
          assert.ok(!(await page.content()).includes(first))
          await page.getByRole('checkbox', { name: 'reports:write' }).check()
          await press(page, 'Rotate the secret')
          await assertAccessible(page)
          await page.getByRole('dialog').getByRole('button', { name: 'Rotate the secret' }).click()
          await said(page, 'New client secret')
          const second = String(await page.locator('.notice code').textContent())
          assert.deepEqual([(await token(id, first)).status, (await token(id, second)).status], [401, 200])
          await press(page, 'Remove label tenant')
          await press(page, 'Save')
          await said(page, 'Saved')
          await page.getByLabel('Name').fill('Mine')
          const changed = await call('PATCH', `/api/clients/${id}`, { name: 'Theirs', firstParty: true })
          assert.equal(changed.status, 200)
          await press(page, 'Save')
          const conflict = page.getByRole('dialog', { name: 'Someone else has changed this' })
          await conflict.getByRole('cell', { name: 'Theirs', exact: true }).waitFor()
          await conflict.getByRole('button', { name: 'Edit again' }).click()
          await page.getByRole('checkbox', { name: 'First party', checked: true }).waitFor()
          await page.getByLabel('Name').fill('Partner Ltd')
          await press(page, 'Save')
          await title(page, 'Partner Ltd')
          const row = await auth.db.read
            .selectFrom('clients')
            .selectAll()
            .where('id', '=', id)
            .executeTakeFirstOrThrow()
          assert.deepEqual([row.scopes, row.labels], ['reports:read reports:write', '{}'])
          await press(page, 'Revoke the client')
          await said(page, /All of its tokens get 401/)
          await page.getByRole('dialog').getByRole('button', { name: 'Revoke the client' }).click()
          await title(page, 'Clients')
          assert.equal((await token(id, second)).status, 401)
          await page.getByRole('link', { name: 'Console' }).waitFor()
          await page.getByRole('link', { name: 'Partner' }).waitFor({ state: 'detached' })
        },
        /412|422/,
      )
    })

    it('API keys: creates a key, overwrites a concurrent edit, and revokes the key', async () => {
      await asAdmin(
        '/access/api-keys',
        async (page, call) => {
          await said(page, 'There are no API keys')
          await press(page, 'New API key')
          await page.getByLabel('Name').fill('Batch')
          await page.getByLabel('Requests', { exact: true }).fill('600')
          await assertAccessible(page)
          await page.route(/\/api\/keys$/, async (route) => {
            await route.fetch()
            await route.abort()
          })
          await press(page, 'Create API key')
          await page.getByRole('alert').waitFor()
          await page.unroute(/\/api\/keys$/)
          await press(page, 'Create API key')
          await said(page, 'Batch was created')
          assert.match(String(await page.locator('.notice code').textContent()), /^plk_/)
          await press(page, 'Done')
          await said(page, '600 in 60 s')
          await press(page, 'Edit Batch')
          await page.getByLabel('Expires').fill('2020-01-01T00:00')
          await press(page, 'Save')
          await said(page, /must be an instant in the future/)
          await page.getByLabel('Expires').fill('')
          await page.getByLabel('Requests per month').fill('5000')
          const { body } = await call('GET', '/api/keys')
          const [key] = ('items' in body ? body.items : body) as { id: string }[]
          const path = `/api/keys/${key?.id}`
          assert.equal((await call('PATCH', path, { rate: '900/60' })).status, 200)
          await press(page, 'Save')
          const conflict = page.getByRole('dialog', { name: 'Someone else has changed this' })
          await conflict.getByRole('cell', { name: '900 in 60 s' }).waitFor()
          await assertAccessible(page)
          await conflict.getByRole('button', { name: 'Overwrite with yours' }).click()
          await said(page, '5,000')
          const now = (await call('GET', path)).body
          assert.deepEqual([now.rate, now.quota], ['900/60', 5000])
          await press(page, 'Revoke Batch')
          await press(page, 'Revoke the key')
          await said(page, 'There are no API keys')
        },
        /412|422|ERR_FAILED/,
      )
    })

    /** Logs a user in to a new client, and returns the access token. */
    const accessOf = async (who: Person, name: string) => {
      const config = await auth.openidClient({ name, scopes: ['openid', 'users:read'] })
      const { tokens } = await codeFlow(config, auth.browser(), who, { scope: 'openid users:read' })
      return tokens.access_token
    }

    it('users: finds a user by name, ends a session and a client’s access, locks and unlocks the account', async () => {
      const who = await auth.person({ name: 'Edsger Dijkstra' })
      const [laptop, phone] = [await accessOf(who, 'Laptop App'), await accessOf(who, 'Phone App')]
      await asAdmin('/access/users', async (page) => {
        await page.getByLabel('Name or e-mail address').fill('dijkstra')
        await page.waitForURL(/q=dijkstra/)
        await page.getByRole('link', { name: 'Edsger Dijkstra' }).click()
        await title(page, 'Edsger Dijkstra')
        await page.getByRole('rowheader', { name: 'Laptop App' }).first().waitFor()
        await page
          .getByRole('row', { name: /^[^c].*Laptop App.*End/ })
          .getByRole('button', { name: /^End the session/ })
          .click()
        await assertAccessible(page)
        await press(page, 'End the session')
        await said(page, 'The session has ended')
        assert.deepEqual([await auth.statusFor(laptop), await auth.statusFor(phone)], [401, 200])
        await press(page, 'End the access of Phone App')
        await press(page, 'End the access')
        await said(page, 'The access has ended')
        assert.equal(await auth.statusFor(phone), 401)
        await press(page, 'Lock')
        await said(page, /cannot sign in any more/)
        await press(page, 'Lock the account')
        await page.getByText('Locked', { exact: true }).first().waitFor()
        await said(page, 'Edsger Dijkstra is not signed in anywhere.')
        await press(page, 'Unlock')
        await press(page, 'Unlock the account')
        await page.getByRole('button', { name: 'Lock', exact: true }).waitFor()
      })
    })

    it('users: invites a user, makes the user an administrator, and shows the service’s refusal to lock the last administrator', async () => {
      await asAdmin(
        '/access/users',
        async (page) => {
          await press(page, 'Invite a user')
          await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Barbara Liskov')
          await page
            .getByRole('textbox', { name: 'E-mail address', exact: true })
            .fill(`barbara-${engine.name}@example.com`)
          await page.route(/\/invitation$/, (route) => route.fulfill({ status: 503, json: { detail: 'Later' } }))
          await press(page, 'Invite')
          await said(page, 'Later')
          await page.unroute(/\/invitation$/)
          await press(page, 'Invite')
          await said(page, 'User invited')
          await page.keyboard.press('Escape')
          await page.mouse.click(5, 5)
          assert.match(String(await page.locator('.notice code').textContent()), /\/oauth\/invitation\?token=/)
          await page.getByRole('link', { name: 'Go to the user' }).click()
          await title(page, 'Barbara Liskov')
          await said(page, 'Invited')
          await press(page, 'Make an administrator')
          await press(page, 'Change role')
          await said(page, 'Role changed')
          const grace = await auth.db.read.selectFrom('users').select('id').where('name', '=', 'Grace Hopper').execute()
          const last = grace.at(-1)?.id
          await auth.db.write((tx) =>
            tx.updateTable('accounts').set({ role: 'user' }).where('userId', '!=', Number(last)).execute(),
          )
          await page.goto(`${auth.baseUrl}/console/access/users/${last}`)
          await title(page, 'Grace Hopper')
          await press(page, 'Lock')
          await said(page, 'This is your own account')
          await press(page, 'Lock the account')
          await said(page, /This is the last administrator who can log in/)
        },
        /409|503/,
      )
    })

    it('rotates the signing keys at once; other pages show a 403, and offer a retry after a 503', async () => {
      await asAdmin(
        '/access/signing-keys',
        async (page) => {
          await press(page, 'Rotate')
          await page.getByRole('radio', { name: /^At once The/ }).check()
          await assertAccessible(page)
          await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click()
          await said(page, 'Only verifies old tokens')
          await page.route('**/api/clients*', (route) =>
            route.fulfill({ status: 403, json: { detail: 'Not for you' } }),
          )
          await page.getByRole('link', { name: 'Clients' }).click()
          await said(page, 'You may not see this')
          await page.unroute('**/api/clients*')
          let requests = 0
          await page.route('**/api/keys*', (route) => {
            requests++
            const headers = { 'retry-after': '60' }
            return route.fulfill({ status: 503, headers, json: { detail: 'Back in a minute' } })
          })
          await page.getByRole('link', { name: 'API keys' }).click()
          await said(page, 'Back in a minute')
          assert.equal(requests, 1)
          await page.unroute('**/api/keys*')
          await press(page, 'Try again')
          await said(page, 'There are no API keys')
        },
        /403|503/,
      )
    })
  })
})
