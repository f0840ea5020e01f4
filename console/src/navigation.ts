/** A page in the navigation. Only users with all of its `scopes` see it. */
export interface Entry {
  title: string
  to: string
  scopes: readonly string[]
  /** Additional search terms for the command palette. */
  words?: string
}

interface Group {
  title: string | null
  entries: readonly Entry[]
}

/** The pages of the console, as listed in the navigation and the command palette. */
export const navigation: readonly Group[] = [
  { title: null, entries: [{ title: 'Overview', to: '/', scopes: [], words: 'home start' }] },
  {
    title: 'Traffic',
    entries: [
      { title: 'Traffic', to: '/traffic', scopes: ['admin'], words: 'limits rate quota busiest top clients addresses' },
      { title: 'Requests', to: '/requests', scopes: ['admin'], words: 'log id errors find' },
    ],
  },
  {
    title: 'Data',
    entries: [{ title: 'Records', to: '/records', scopes: [], words: 'rows tables resources data deleted restore' }],
  },
  {
    title: 'Work',
    entries: [
      { title: 'Webhooks', to: '/webhooks', scopes: ['webhooks:read'], words: 'events deliveries endpoints' },
      { title: 'Reports', to: '/reports', scopes: ['reports:read'], words: 'jobs queues downloads exports' },
      { title: 'API explorer', to: '/explorer', scopes: [], words: 'openapi curl request try send' },
    ],
  },
  {
    title: 'Access',
    entries: [
      { title: 'Clients', to: '/access/clients', scopes: ['admin'], words: 'oauth secret partner' },
      { title: 'API keys', to: '/access/api-keys', scopes: ['admin'], words: 'rate quota limit' },
      {
        title: 'Users',
        to: '/access/users',
        scopes: ['admin'],
        words: 'accounts sessions consents lock invite password',
      },
      { title: 'Signing keys', to: '/access/signing-keys', scopes: ['admin'], words: 'jwks rotate' },
    ],
  },
  {
    title: 'Operations',
    entries: [
      { title: 'Health', to: '/health', scopes: ['admin'], words: 'doctor checks disk storage space certificate' },
      { title: 'Backups', to: '/backups', scopes: ['admin'], words: 'restore verify schedule' },
      { title: 'Nodes', to: '/nodes', scopes: ['admin'], words: 'processes cluster heartbeat' },
      { title: 'Versions', to: '/versions', scopes: ['admin'], words: 'deprecated retire sunset callers' },
      { title: 'Audit log', to: '/audit', scopes: ['audit:read'], words: 'events history chain export' },
      { title: 'Settings', to: '/settings', scopes: ['admin'], words: 'configuration environment variables' },
    ],
  },
]

/** Returns the pages that the user may see, without empty groups. */
export const visible = (may: (...scopes: string[]) => boolean): readonly Group[] =>
  navigation
    .map(({ title, entries }) => ({ title, entries: entries.filter(({ scopes }) => may(...scopes)) }))
    .filter(({ entries }) => entries.length > 0)
