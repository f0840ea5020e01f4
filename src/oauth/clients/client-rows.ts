import type { Client } from '../../storage/tables/tables.ts'
import type { ClientSettings } from './validate.ts'

/** A registered client. A client without a secret hash is public and relies only on PKCE. */
export interface RegisteredClient extends ClientSettings {
  id: string
  secretHash: string | null
  scopes: string[]
  grants: string[]
  redirectUris: string[]
  postLogoutRedirectUris: string[]
  revision: number
  sharesSecond: number
  createdAt: string
  updatedAt: string
  /** When a token of the client was last used; accurate to the minute. */
  lastUsedAt: string | null
  revokedAt: string | null
}

const words = (text: string) => text.split(' ').filter(Boolean)
const joined = (list: readonly string[]) => [...new Set(list)].join(' ')

/** Converts settings to columns. */
export function toRow(settings: ClientSettings) {
  const { name, scopes, grants, redirectUris, postLogoutRedirectUris, labels, ...flags } = settings
  return {
    name,
    scopes: joined(scopes),
    grants: joined(grants),
    redirectUris: joined(redirectUris),
    postLogoutRedirectUris: joined(postLogoutRedirectUris),
    trusted: Number(flags.trusted),
    firstParty: Number(flags.firstParty),
    introspectsOthers: Number(flags.introspectsOthers),
    labels: JSON.stringify(labels),
    ...{ rate: flags.rate, quota: flags.quota },
  }
}

/** Converts a row to a client. */
export function fromRow(row: Client): RegisteredClient {
  return {
    ...row,
    scopes: words(row.scopes),
    grants: words(row.grants),
    redirectUris: words(row.redirectUris),
    postLogoutRedirectUris: words(row.postLogoutRedirectUris),
    trusted: row.trusted === 1,
    firstParty: row.firstParty === 1,
    introspectsOthers: row.introspectsOthers === 1,
    labels: JSON.parse(row.labels),
  }
}
