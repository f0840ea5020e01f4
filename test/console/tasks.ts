import assert from 'node:assert/strict'
import type { Locator, Page } from 'playwright-core'
import type { Work } from './work.ts'

/** The actions that an operator performs in a task. Each task begins at the overview. */
export interface Hands {
  page: Page
  /** Clicks `target`, by default the link or button with this text. */
  press: (text: string, target?: Locator) => Promise<void>
  /** Types into the field with a label. */
  enter: (label: string, text: string) => Promise<void>
  /** Waits until a text is shown. */
  sees: (text: string | RegExp) => Promise<void>
  /** Called when the page is in the state that the documentation's picture shows. */
  picture: () => Promise<void>
}

/** An operator's task. `title` is the heading in docs/console.md, `image` the name of the picture. */
export interface Task {
  title: string
  image: string
  run: (hands: Hands, work: Work) => Promise<void>
  /** Checks the result in the service. */
  check?: (work: Work) => Promise<void>
}

const tableOf = (page: Page, label: string) => page.getByRole('region', { name: label, exact: true }).last()
const rowOf = (page: Page, label: string, name: string | RegExp) =>
  tableOf(page, label).getByRole('row').filter({ hasText: name })

export const tasks: readonly Task[] = [
  {
    title: 'Which client sends the most requests?',
    image: 'busiest-client',
    run: async ({ page, press, sees, picture }) => {
      await press('Traffic', navigationLink(page, 'Traffic'))
      await sees('Shop')
      assert.match(String(await tableOf(page, 'Clients').getByRole('row').nth(1).textContent()), /^Shop/)
      await picture()
    },
  },
  {
    title: 'Why does a webhook fail? Send the event again',
    image: 'failed-delivery',
    run: async ({ page, press, sees, picture }, { failing }) => {
      await press('Webhooks', navigationLink(page, 'Webhooks'))
      await press('Accounting')
      await press('book.created', page.getByRole('link', { name: 'book.created' }).last())
      await press('Response', page.getByText('Response', { exact: true }).first())
      await sees('the ledger is locked until the month is closed')
      await picture()
      failing.repair()
      await press('Send again')
      await page.getByText('delivered', { exact: true }).first().waitFor()
    },
  },
  {
    title: 'End the session of a lost laptop',
    image: 'sessions',
    run: async ({ page, press, enter, sees, picture }) => {
      await press('Users', navigationLink(page, 'Users'))
      await enter('Name or e-mail address', 'dijkstra')
      await press('Edsger Dijkstra')
      const session = rowOf(page, 'Sessions', 'Laptop app')
      await session.waitFor()
      await picture()
      await press('End', session.getByRole('button'))
      await press('End the session')
      await sees('The session has ended')
    },
    check: async ({ logins, statusOf }) => {
      assert.deepEqual([await statusOf(logins.laptop), await statusOf(logins.phone)], [401, 200])
    },
  },
  {
    title: 'Find a request by its id',
    image: 'request',
    run: async ({ press, enter, sees, picture }, { requestId }) => {
      await enter('Find a request', `urn:request:${requestId}`)
      await press('Find')
      await sees('VALIDATION_ERROR')
      await picture()
    },
  },
  {
    title: 'Who must move before v1 is retired?',
    image: 'retirement',
    run: async ({ page, press, sees, picture }) => {
      await press('Versions', navigationLink(page, 'Versions'))
      await sees(/clients? must move first/)
      await rowOf(page, 'Clients that must move', 'Shop').scrollIntoViewIfNeeded()
      await picture()
    },
  },
  {
    title: 'Restore a deleted row',
    image: 'deleted',
    run: async ({ page, press, sees, picture }) => {
      await press('Records', navigationLink(page, 'Records'))
      await press('Deleted products')
      const row = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'Lamp 3', exact: true }) })
      await row.waitFor()
      await picture()
      await press('Restore', row.getByRole('button', { name: 'Restore' }))
      await sees('Restored product #3')
    },
    check: async ({ send }) => assert.equal((await send('GET', '/products/3')).status, 200),
  },
  {
    title: 'Raise the rate of an API key',
    image: 'api-key',
    run: async ({ page, press, enter, sees, picture }) => {
      await press('API keys', navigationLink(page, 'API keys'))
      await press('Edit', rowOf(page, 'API keys', 'Batch import').getByRole('button', { name: 'Edit' }))
      await enter('Requests', '600')
      await picture()
      await press('Save')
      await sees('600 in 3600 s')
    },
  },
  {
    title: 'Is the last backup good?',
    image: 'backup',
    run: async ({ page, press, sees, picture }) => {
      await press('Backups', navigationLink(page, 'Backups'))
      await press('Verify the newest backup')
      await sees('The newest backup is complete and unaltered.')
      await picture()
    },
  },
  {
    title: 'What fills the disk?',
    image: 'disk',
    run: async ({ page, press, picture }) => {
      await press('Health', navigationLink(page, 'Health'))
      const files = tableOf(page, 'Files and folders')
      await files.waitFor()
      await files.scrollIntoViewIfNeeded()
      await picture()
    },
  },
  {
    title: 'Register a client for a partner',
    image: 'new-client',
    run: async ({ page, press, enter, sees, picture }) => {
      await press('Clients', navigationLink(page, 'Clients'))
      await press('New client')
      await enter('Name', 'Partner')
      await press('reports:read', page.getByRole('checkbox', { name: 'reports:read' }))
      await press('Create client')
      await sees('Partner was registered')
      await picture()
    },
    check: async ({ clientNamed }) => {
      const { scopes, secretHash } = await clientNamed('Partner')
      assert.deepEqual([scopes, secretHash === null], ['reports:read', false])
    },
  },
]

function navigationLink(page: Page, name: string): Locator {
  return page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true })
}

/** Returns `Hands` for a page, and the texts that have been clicked so far. */
export function handsOn(page: Page, picture: () => Promise<void>): { hands: Hands; clicked: string[] } {
  const clicked: string[] = []
  const hands: Hands = {
    page,
    press: async (text, target) => {
      const named = { name: text, exact: true }
      await (target ?? page.getByRole('link', named).or(page.getByRole('button', named)).last()).click()
      clicked.push(text)
    },
    enter: async (name, text) => {
      const named = { name, exact: true }
      const field = page.getByRole('textbox', named).or(page.getByRole('searchbox', named))
      await field.or(page.getByRole('spinbutton', named)).last().fill(text)
    },
    sees: (text) => page.getByText(text).first().waitFor(),
    picture,
  }
  return { hands, clicked }
}
