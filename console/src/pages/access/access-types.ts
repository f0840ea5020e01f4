import type { components } from '../../api/schema.d.ts'
import type { Tone } from '../../ui/page.tsx'

type Schemas = components['schemas']

export type Client = Schemas['OAuthClient']
export type ApiKey = Schemas['ApiKey']
export type CreatedApiKey = Schemas['CreatedApiKey']
export type Account = Schemas['Account']
export type AccountItem = Schemas['AccountItem']
export type UserSession = Schemas['Session']
export type UserGrant = Schemas['Grant']
export type SigningKey = Schemas['SigningKey']

export const accountStatuses = ['none', 'invited', 'active', 'locked'] as const
type AccountStatus = (typeof accountStatuses)[number]

/** The filters of the list of users. */
export interface UserFilter {
  q?: string | undefined
  status?: AccountStatus | undefined
  role?: 'user' | 'admin' | undefined
}

/** The label and tone of each account status. */
export const statusLooks: Readonly<Record<AccountStatus, { text: string; tone?: Tone }>> = {
  none: { text: 'No account' },
  invited: { text: 'Invited', tone: 'info' },
  active: { text: 'Active', tone: 'good' },
  locked: { text: 'Locked', tone: 'wrong' },
}
