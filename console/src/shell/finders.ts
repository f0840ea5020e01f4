import { requestFinder } from '../pages/traffic/finder.ts'

/** `find` returns a page's path for pasted text, such as a request id; null for any other text. */
export interface Finder {
  title: string
  scopes: readonly string[]
  find: (text: string) => string | null
}

/** The finders that the command palette uses, in addition to the page names. */
export const finders: readonly Finder[] = [
  requestFinder,
  {
    title: 'Client',
    scopes: ['admin'],
    find: (text) => (/^cli_[A-Za-z0-9_-]{22}$/.test(text) ? `/access/clients/${text}` : null),
  },
  {
    title: 'Webhook',
    scopes: ['webhooks:read'],
    find: (text) => (/^whk_[\w-]{22}$/.test(text) ? `/webhooks/${text}` : null),
  },
  {
    title: 'Report',
    scopes: ['reports:read'],
    find: (text) => (/^tsk_[\w-]{22}$/.test(text) ? `/reports/${text}` : null),
  },
]
