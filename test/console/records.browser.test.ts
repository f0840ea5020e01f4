import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Page } from 'playwright-core'
import { collection, Decimal, File, Line, Ref, service, Title, Type } from '../../src/plinth.ts'
import { type Person, person, type Real, realServer } from '../oauth/real.ts'
import { maxWaitMs, skip } from '../support/chromium.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { accessibilityFaults, type Call, chromiumBrowser, fitsIn, logIn, settled } from './browser.ts'

const customers = collection({
  path: '/customers',
  noun: 'customer',
  keepDeleted: '30 days',
  body: Type.Object({ name: Title, email: Type.Optional(Line(1, 80)), pin: Type.Optional(Line(4, 4)) }),
  writeOnly: ['pin'],
  filters: ['name'],
  search: ['name'],
  sorts: ['name'],
  unique: ['email'],
})
/** A collection whose deleted rows cannot be restored. */
const orders = collection({
  path: '/orders',
  noun: 'order',
  body: Type.Object({
    customerId: Ref(customers, { onDelete: 'cascade' }),
    status: Type.Enum(['open', 'sent', 'paid']),
    total: Decimal(9, 2),
    isGift: Type.Optional(Type.Boolean()),
    tags: Type.Optional(Type.Array(Type.String())),
  }),
  filters: ['customerId', 'status', 'total'],
  ranges: ['total'],
  sorts: ['total'],
})
/** A collection with very many rows. */
const readings = collection({ path: '/readings', noun: 'reading', body: Type.Object({ name: Title }) })
const papers = collection({
  path: '/papers',
  noun: 'paper',
  body: Type.Object({ title: Title, scan: Type.Optional(File({ maxBytes: 10_000, types: ['application/pdf'] })) }),
})
const definition = service({ resources: [customers, orders, readings, papers] })

forEachEngine((engine) => {
  describe('the records section of the console', { skip }, () => {
    const real = {} as Real
    let admin: Person
    before(async () => {
      Object.assign(real, await realServer(engine, {}, definition))
      admin = await person(real, { role: 'admin', name: 'Grace Hopper' })
    })
    after(() => real.close())
    const using = chromiumBrowser(() => real.baseUrl)

    interface Shown {
      page: Page
      call: Call
      open: (path: string) => Promise<void>
      requests: () => { method: string; path: string; status: number }[]
    }
    /** Opens a page as an administrator. */
    const shown = (path: string, work: (shown: Shown) => Promise<void>, options: { expected?: RegExp } = {}) =>
      using(options, async ({ page, open, call, requests }) => {
        await page.goto(`${real.baseUrl}/console/records/customers`)
        await logIn(page, admin)
        await page
          .getByText(/rows?$/)
          .first()
          .waitFor()
        await open(path)
        requests()
        await work({ page, call, open, requests })
      })

    let made = 0
    const customer = async ({ call }: Pick<Shown, 'call'>, more: object = {}) => {
      const { status, body } = await call('POST', '/customers', { name: `Customer ${++made}`, ...more })
      assert.equal(status, 201)
      return body.id as number
    }
    /** Replaces all readings with the given number of new ones. */
    const fill = async (count: number) => {
      await real.db.write((tx) => sql`delete from resource_readings`.execute(tx))
      // Each statement has a time limit.
      for (let from = 0; from < count; from += 5_000) {
        const to = sql.lit(Math.min(count, from + 5_000))
        const rows = sql`insert into resource_readings (name, revision, created_at, updated_at)
          with recursive counter (at) as (select ${sql.lit(from + 1)} union all select at + 1 from counter where at < ${to})
          select 'Reading ' || at, 1, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z' from counter`
        await real.db.write((tx) => rows.execute(tx))
      }
    }
    /** Waits until the table is as high as this many rows, rounded up to whole pages, and scrolls to the last one. */
    const scrollTo = async (page: Page, rows: number) => {
      const height = Math.ceil(rows / 100) * 100 * 40
      await page.locator(`tbody[style*="height: ${height}px"]`).waitFor()
      await page.locator('.record-grid').evaluate((box, y) => box.scrollTo(0, y - box.clientHeight), (rows + 1) * 40)
    }
    const refusals = /status of (400|404|409|412|422)/

    it('creates a row with a form that shows the service’s errors next to the fields, then edits the row', async () => {
      await shown(
        '/records/customers',
        async ({ page, call }) => {
          await customer({ call }, { email: 'taken@example.com' })
          await page.getByRole('link', { name: 'New customer' }).click()
          await page.getByRole('button', { name: 'Create customer' }).click()
          await page.getByText('is required').waitFor()
          await page.getByLabel('Name').fill('Ada')
          await page.getByLabel('Email').fill('taken@example.com')
          await page.getByLabel('Pin').fill('1234')
          await page.getByRole('button', { name: 'Create customer' }).click()
          await page.getByText('is in use already').waitFor()
          assert.equal(await page.getByLabel('Email').getAttribute('aria-invalid'), 'true')
          await page.getByLabel('Email').fill('ada@example.com')
          await page.getByRole('button', { name: 'Create customer' }).click()
          await page.getByRole('heading', { level: 1, name: 'Ada' }).waitFor()
          assert.equal(await page.getByText('1234').count(), 0)
          await page.getByRole('button', { name: 'Edit' }).click()
          await page.getByLabel('Name').fill('Ada Lovelace')
          const sent = page.waitForRequest((request) => request.method() === 'PATCH')
          await page.getByRole('button', { name: 'Save' }).click()
          const patch = await sent
          assert.equal(patch.headers()['if-match'], '"1"')
          await page.getByRole('heading', { level: 1, name: 'Ada Lovelace' }).waitFor()
        },
        { expected: refusals },
      )
    })

    it('uploads, downloads, replaces and removes the file of a row', async () => {
      await shown(
        '/records/papers',
        async ({ page, call, open }) => {
          const { body } = await call('POST', '/papers', { title: 'Contract' })
          await open(`/records/papers/row/${body.id}`)
          const choose = async (button: string, content: string) => {
            const [chooser] = await Promise.all([
              page.waitForEvent('filechooser'),
              page.getByRole('button', { name: button }).click(),
            ])
            await chooser.setFiles({ name: 'contract.pdf', mimeType: 'application/pdf', buffer: Buffer.from(content) })
          }
          await choose('Upload scan', '%PDF-1.7 first')
          await page.getByText('application/pdf, 14 bytes').waitFor()
          const download = page.waitForEvent('download')
          await page.getByRole('button', { name: 'Download scan' }).click()
          assert.equal((await download).suggestedFilename(), `paper-${body.id}-scan.pdf`)
          assert.equal(await readFile(await (await download).path(), 'utf8'), '%PDF-1.7 first')
          await choose('Replace scan', 'not a PDF file')
          await page.getByText('The content of the scan is not application/pdf').waitFor()
          const sent = page.waitForRequest((request) => request.method() === 'PUT')
          await choose('Replace scan', '%PDF-1.7 the second')
          assert.match((await sent).headers()['if-match'] ?? '', /^"[\w+/=]{44}"$/)
          await page.getByText('application/pdf, 19 bytes').waitFor()
          await page.getByRole('button', { name: 'Remove scan' }).click()
          await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
          await page.getByRole('button', { name: 'Upload scan' }).waitFor()
          assert.equal((await call('GET', `/papers/${body.id}/scan`)).status, 404)
        },
        { expected: /status of 415/ },
      )
    })

    for (const choice of ['Take theirs', 'Overwrite with yours', 'Edit again'] as const) {
      it(`shows both versions if someone else has changed the row: ${choice}`, async () => {
        await shown(
          '/records/customers',
          async ({ page, call, open }) => {
            const id = await customer({ call }, { email: `old${made}@example.com` })
            await open(`/records/customers/row/${id}`)
            await page.getByRole('button', { name: 'Edit' }).click()
            await page.getByLabel('Name').fill('Mine')
            await call('PATCH', `/customers/${id}`, { email: `new${id}@example.com` })
            await page.getByRole('button', { name: 'Save' }).click()
            const dialog = page.getByRole('dialog', { name: 'Someone else has changed this' })
            await dialog.waitFor()
            assert.deepEqual(
              await dialog
                .getByRole('row')
                .allInnerTexts()
                .then((rows) => rows.map((row) => row.split(/\s+/)[0])),
              ['Field', 'Name', 'Email'],
            )
            await dialog.getByRole('button', { name: choice }).click()
            if (choice === 'Edit again') await page.getByRole('button', { name: 'Save' }).click()
            await page.getByRole('button', { name: 'Edit' }).waitFor()
            const { body } = await call('GET', `/customers/${id}`)
            assert.equal(body.email, `new${id}@example.com`)
            assert.equal(body.name === 'Mine', choice !== 'Take theirs')
          },
          { expected: refusals },
        )
      })
    }

    it('deletes a row and undoes the deletion; the row keeps its id', async () => {
      await shown('/records/customers', async ({ page, call, open }) => {
        const id = await customer({ call })
        await open(`/records/customers/row/${id}`)
        await page.getByRole('button', { name: 'Delete' }).click()
        // The message stays while the pointer is on it.
        await page.getByText(`Deleted customer #${id}`).hover()
        assert.equal((await call('GET', `/customers/${id}`)).status, 404)
        const restored = page.waitForResponse((response) => /restore$/.test(response.url()))
        await page.getByRole('button', { name: 'Undo' }).click()
        assert.equal((await restored).status(), 201)
        assert.equal((await call('GET', `/customers/${id}`)).status, 200)
      })
    })

    it('if a deleted row cannot be restored, sends the DELETE request only once Undo is no longer offered', async () => {
      await shown('/records/orders', async ({ page, call, open, requests }) => {
        const customerId = await customer({ call })
        const { body } = await call('POST', '/orders', { customerId, status: 'open', total: '9.50' })
        await page.clock.install()
        await open(`/records/orders/row/${body.id}`)
        requests()
        const press = () => page.getByRole('button', { name: 'Delete' }).click()
        await press()
        await page.getByText(`Deleting order #${body.id}`).hover()
        await page.clock.runFor(20_000)
        await page.getByRole('button', { name: 'Undo' }).click()
        await page.clock.runFor(20_000)
        assert.equal((await call('GET', `/orders/${body.id}`)).status, 200)
        await open(`/records/orders/row/${body.id}`)
        const removal = page.waitForResponse((response) => response.request().method() === 'DELETE')
        await press()
        await page.getByText(`Deleting order #${body.id}`).waitFor()
        await page.clock.runFor(20_000)
        assert.equal((await removal).status(), 204)
        assert.equal((await removal).request().headers()['if-match'], '"1"')
      })
    })

    it('lists deleted rows, restores several at once and erases one', async () => {
      await shown('/records/customers', async ({ page, call, open }) => {
        const ids = [await customer({ call }), await customer({ call }), await customer({ call })]
        for (const id of ids) await call('DELETE', `/customers/${id}`)
        await open('/records/customers/deleted')
        assert.deepEqual(await accessibilityFaults(page), [])
        const item = (id: number | undefined) =>
          page
            .getByRole('listitem')
            .filter({ hasText: `#${id}` })
            .first()
        for (const id of ids.slice(0, 2)) await item(id).getByRole('checkbox').check()
        await page.getByRole('region', { name: 'Selected rows' }).getByRole('button', { name: 'Restore' }).click()
        await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click()
        await page.getByText('2 of 2 done').waitFor()
        await page.getByRole('button', { name: 'Close' }).first().click()
        await item(ids[2]).getByRole('button', { name: 'Delete for good' }).click()
        await page.getByRole('dialog').getByRole('button', { name: 'Delete for good' }).click()
        await item(ids[2]).waitFor({ state: 'detached' })
        assert.equal((await call('POST', `/api/deleted/customers/${ids[2]}/restore`)).status, 404)
        for (const id of ids.slice(0, 2)) assert.equal((await call('GET', `/customers/${id}`)).status, 200)
      })
    })

    it('filters and sorts; the URL contains the filters and the sort order', async () => {
      await shown('/records/orders', async ({ page, call, open, requests }) => {
        const customerId = await customer({ call })
        for (const [status, total] of [
          ['open', '5.00'],
          ['paid', '15.00'],
          ['paid', '25.00'],
        ] as const)
          await call('POST', '/orders', { customerId, status, total })
        await open('/records/orders')
        await page.getByRole('button', { name: 'Add filter' }).click()
        await page.getByLabel('Field', { exact: true }).selectOption('status')
        await page.getByLabel('Operator', { exact: true }).selectOption('status[not]')
        await page.getByLabel('Value', { exact: true }).selectOption('open')
        await page.getByRole('button', { name: 'Apply' }).click()
        await page.getByText('Status is not open').waitFor()
        await page.getByRole('columnheader', { name: 'Total' }).getByRole('button').click()
        await page.waitForURL(/sort=total/)
        await page.getByRole('button', { name: 'Add filter' }).click()
        await page.getByLabel('Field', { exact: true }).selectOption('total')
        await page.getByLabel('Operator', { exact: true }).selectOption('total[from]')
        await page.getByLabel('Value', { exact: true }).fill('20')
        await page.getByRole('button', { name: 'Apply' }).click()
        await page.getByText('1 row', { exact: true }).waitFor()
        assert.ok(page.url().includes('status'), page.url())
        requests()
        await page.reload()
        await settled(page)
        await page.getByText('1 row', { exact: true }).waitFor()
        const [list] = requests().filter(({ path }) => path.startsWith('/v2/orders?') && path.includes('limit=100'))
        const query = new URL(list?.path ?? '', real.baseUrl).searchParams
        assert.deepEqual(
          [query.get('status[not]'), query.get('total[from]'), query.get('sort')],
          ['open', '20', 'total'],
        )
        await page
          .getByRole('gridcell', { name: `#${customerId}` })
          .getByRole('link')
          .click()
        await page.getByRole('heading', { level: 1, name: `Customer ${made}` }).waitFor()
        await page.getByRole('link', { name: 'Show all' }).click()
        await page.getByText('3 rows').waitFor()
      })
    })

    it('works by keyboard: / searches, arrows move, Space selects, Enter opens', async () => {
      await shown('/records/customers', async ({ page, call, open }) => {
        for (const name of ['Zebra one', 'Zebra two', 'Zebra three']) await customer({ call }, { name })
        await open('/records/customers?sort=name')
        await page.keyboard.press('/')
        // A single input event: after a pause between two keys, the page would search for a part of the word.
        await page.keyboard.insertText('zebras')
        await page.getByRole('button', { name: 'Remove all filters' }).click()
        const search = page.getByRole('searchbox', { name: 'Search' })
        await eventually('the search field is empty', async () => (await search.inputValue()) === '')
        await page.getByRole('gridcell').first().waitFor()
        await page.keyboard.press('/')
        await page.keyboard.insertText('zebra')
        await page.waitForURL(/q=zebra(&|$)/)
        await page.getByText('3 rows').waitFor()
        const cell = (text: string) => page.getByRole('gridcell', { name: text, exact: true })
        await cell('Zebra one').focus()
        await page.keyboard.press('ArrowDown')
        await page.keyboard.press('ArrowDown')
        await page.locator('td:focus', { hasText: 'Zebra two' }).waitFor()
        await page.keyboard.press(' ')
        await page.getByText('1 selected').waitFor()
        await page.keyboard.press('Enter')
        await page.getByRole('heading', { level: 1, name: 'Zebra two' }).waitFor()
      })
    })

    it('sets a field of the selected rows with If-Match, and lists the rows that failed', async () => {
      await shown(
        '/records/customers',
        async ({ page, call, open }) => {
          for (const name of ['Bulk one', 'Bulk two', 'Bulk three']) await customer({ call }, { name })
          await open('/records/customers?q=bulk')
          await page.getByRole('checkbox', { name: 'Select all loaded rows' }).check()
          await page.getByRole('button', { name: 'Set a field' }).click()
          await page.getByLabel('Field', { exact: true }).selectOption('email')
          await page.getByLabel('Value', { exact: true }).fill('bulk@example.com')
          const patches: (string | undefined)[] = []
          page.on('request', (request) => request.method() === 'PATCH' && patches.push(request.headers()['if-match']))
          await page.getByRole('button', { name: 'Set', exact: true }).click()
          await page.getByText('3 of 3 done, 2 failed').waitFor()
          assert.deepEqual(patches, ['"1"', '"1"', '"1"'])
          assert.equal(await page.getByRole('dialog').getByRole('listitem').count(), 2)
        },
        { expected: refusals },
      )
    })

    it('requests each page once while scrolling in a table of 100,000 rows, and renders fewer than 60 rows', async () => {
      await fill(100_000)
      await shown('/records/readings?sort=-id', async ({ page, requests }) => {
        const rows = page.locator('tbody tr')
        const cell = (name: string) => page.getByRole('gridcell', { name, exact: true })
        const pages = () =>
          requests().filter(({ path }) => path.startsWith('/v2/readings?') && path.includes('limit=100'))
        await page.getByText('100,000 rows', { exact: true }).waitFor()
        await cell('Reading 100000').waitFor()
        for (let at = 1; at <= 20; at++) {
          await scrollTo(page, at * 100)
          await cell(`Reading ${100_001 - at * 100}`).waitFor()
          assert.ok((await rows.count()) < 60, String(await rows.count()))
        }
        const read = pages().map(({ path }) => path)
        assert.equal(new Set(read).size, read.length)
        assert.ok(read.length <= 21, String(read.length))
        await page.locator('.record-grid').evaluate((box) => box.scrollTo(0, 0))
        await cell('Reading 100000').waitFor()
        assert.ok(pages().length <= 2)
      })
    })

    it('downloads all rows as CSV, and continues after a 429', async () => {
      await fill(1_000)
      await shown(
        '/records/readings',
        async ({ page }) => {
          const second = /readings\?.*cursor=/
          await page.route(second, (route) => route.fulfill({ status: 429, headers: { 'retry-after': '1' } }), {
            times: 1,
          })
          const download = page.waitForEvent('download')
          await page.getByRole('button', { name: 'Download CSV' }).click()
          const stream = await (await download).createReadStream()
          let text = ''
          for await (const part of stream) text += part
          const lines = text.trimEnd().split('\r\n')
          assert.equal(lines.length, 1_001)
          assert.match(lines[0] ?? '', /^id,name/)
        },
        { expected: /429/ },
      )
    })

    it('ends a CSV download if the user cancels it or leaves the page', async () => {
      await fill(1_000)
      await shown('/records/readings', async ({ page }) => {
        const held = page.waitForRequest(/readings\?.*cursor=/)
        await page.route(/readings\?.*cursor=/, () => {})
        await page.getByRole('button', { name: 'Download CSV' }).click()
        await held
        const cancel = page.getByRole('button', { name: 'Cancel (200 of 1,000)' })
        // The message is shown only for a few seconds.
        await Promise.all([page.getByText('Download canceled').waitFor(), cancel.click()])
        const again = page.waitForRequest(/readings\?.*cursor=/)
        await page.getByRole('button', { name: 'Download CSV' }).click()
        const ended = page.waitForEvent('requestfailed')
        await again
        await page.getByRole('link', { name: 'Overview' }).click()
        assert.equal((await ended).failure()?.errorText, 'net::ERR_ABORTED')
      })
    })

    it('reports rows that cannot be read, and reads them again on “Try again”', async () => {
      await fill(1_000)
      await shown(
        '/records/readings',
        async ({ page }) => {
          const later = /readings\?.*cursor=/
          await page.route(later, (route) =>
            route.fulfill({ status: 400, contentType: 'application/json', body: '{}' }),
          )
          await scrollTo(page, 100)
          const problem = page.getByRole('alert').filter({ hasText: 'Some rows could not be read' })
          await problem.waitFor()
          await page.unroute(later)
          await problem.getByRole('button', { name: 'Try again' }).click()
          await problem.waitFor({ state: 'detached' })
          await scrollTo(page, 150)
          await page.getByRole('gridcell', { name: 'Reading 150', exact: true }).waitFor()
        },
        { expected: refusals },
      )
    })

    it('shows a message instead of deleting a row that someone else has changed since it was shown', async () => {
      await shown(
        '/records/customers',
        async ({ page, call, open }) => {
          const id = await customer({ call })
          await open(`/records/customers/row/${id}`)
          await page.getByRole('button', { name: 'Delete' }).waitFor()
          await call('PATCH', `/customers/${id}`, { name: 'Changed meanwhile' })
          await page.getByRole('button', { name: 'Delete' }).click()
          await page.getByText('Someone else has changed this customer meanwhile').waitFor()
          await page.getByRole('heading', { level: 1, name: 'Changed meanwhile' }).waitFor()
          assert.equal((await call('GET', `/customers/${id}`)).status, 200)
        },
        { expected: refusals },
      )
    })

    it('shows an error and keeps the entered values if the row is deleted while it is being edited', async () => {
      await shown(
        '/records/customers',
        async ({ page, call, open }) => {
          const id = await customer({ call })
          await open(`/records/customers/row/${id}`)
          await page.getByRole('button', { name: 'Edit' }).click()
          await page.getByLabel('Name').fill('Mine')
          await call('DELETE', `/customers/${id}`)
          await page.getByRole('button', { name: 'Save' }).click()
          await page.getByRole('alert').waitFor()
          assert.equal(await page.getByLabel('Name').inputValue(), 'Mine')
        },
        { expected: refusals },
      )
    })

    it('creates one row if the response is lost and the user tries again', async () => {
      await shown(
        '/records/customers/new',
        async ({ page, call }) => {
          await page.getByLabel('Name').fill('Sent twice')
          await page.route(/\/customers$/, async (route) => {
            await route.fetch()
            await route.abort()
          })
          await page.getByRole('button', { name: 'Create customer' }).click()
          await page.getByRole('alert').waitFor()
          await page.unroute(/\/customers$/)
          await page.getByRole('button', { name: 'Create customer' }).click()
          await page.getByRole('heading', { level: 1, name: 'Sent twice' }).waitFor()
          const { body } = await call('GET', '/customers?name=Sent%20twice')
          assert.equal((Array.isArray(body) ? body : (body.items as unknown[])).length, 1)
        },
        { expected: /ERR_FAILED/ },
      )
    })

    /** Generates reports of all readings, one after another, while `work` runs. */
    const whileReportsAreMade = async (call: Call, work: () => Promise<void>) => {
      let isOver = false
      const makeReports = async () => {
        do {
          const { status, body } = await call('POST', '/api/reports', { reportType: 'readings', format: 'xlsx' })
          assert.equal(status, 202)
          const path = `/api/reports/${body.taskId}/status`
          const isCompleted = async () => (await call('GET', path)).body.status === 'completed'
          await eventually('the report is completed', isCompleted, maxWaitMs)
        } while (!isOver)
      }
      const making = makeReports()
      try {
        await work()
      } finally {
        isOver = true
        await making
      }
    }

    it('reads and changes rows while reports are generated', async () => {
      await fill(20_000)
      await shown('/records/readings', async ({ page, call }) => {
        await whileReportsAreMade(call, async () => {
          await page.getByText('20,000 rows', { exact: true }).waitFor()
          for (let at = 1; at <= 5; at++) await scrollTo(page, at * 100)
          await page.getByRole('gridcell', { name: 'Reading 500', exact: true }).waitFor()
          await page.getByRole('link', { name: 'Records', exact: true }).click()
          await page.getByRole('main').getByRole('link', { name: 'Customers', exact: true }).click()
          await page.getByRole('link', { name: 'New customer' }).click()
          await page.getByLabel('Name').fill('Made meanwhile')
          await page.getByRole('button', { name: 'Create customer' }).click()
          await page.getByRole('heading', { level: 1, name: 'Made meanwhile' }).waitFor()
          await page.getByRole('button', { name: 'Edit' }).click()
          await page.getByLabel('Name').fill('Changed meanwhile too')
          await page.getByRole('button', { name: 'Save' }).click()
          await page.getByRole('heading', { level: 1, name: 'Changed meanwhile too' }).waitFor()
          await page.getByRole('button', { name: 'Delete' }).click()
          await page.getByRole('link', { name: 'Deleted customers' }).click()
          const row = page.getByRole('listitem').filter({ hasText: 'Changed meanwhile too' })
          await row.getByRole('button', { name: 'Restore' }).click()
          await row.waitFor({ state: 'detached' })
          await page.getByRole('link', { name: 'Customers', exact: true }).click()
          await page.getByRole('searchbox', { name: 'Search' }).fill('meanwhile too')
          await page.getByRole('gridcell', { name: 'Changed meanwhile too', exact: true }).waitFor()
        })
      })
    })

    it('has no overflow at 1440, 768 and 360 px, and no serious accessibility violations', async () => {
      await shown('/records', async ({ page, call, open }) => {
        const customerId = await customer({ call })
        const { body } = await call('POST', '/orders', { customerId, status: 'open', total: '1.00', tags: ['a'] })
        const paper = await call('POST', '/papers', { title: 'Contract' })
        const rows = [`/customers/row/${customerId}`, `/orders/row/${body.id}`, `/papers/row/${paper.body.id}`]
        for (const path of ['', '/customers', '/customers/new', '/customers/deleted', '/orders', ...rows]) {
          await open(`/records${path}`)
          for (const width of [1440, 768, 360]) await fitsIn(page, width)
          assert.deepEqual(await accessibilityFaults(page), [], path)
        }
      })
    })
  })
})
