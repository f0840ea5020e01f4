import type { Generated } from 'kysely'
import type { Revisioned } from '../rows/revision.ts'
import type { SigningKeysTable } from './administration.ts'

export interface ClientsTable extends Revisioned {
  id: string
  name: string
  secretHash: string | null
  scopes: string
  grants: string
  redirectUris: string
  postLogoutRedirectUris: Generated<string>
  /** 1: the operator's own, so that nobody is asked for consent. */
  firstParty: Generated<number>
  /** 1: may be told a person's password (the password grant). */
  trusted: Generated<number>
  /** 1: may introspect the tokens of other clients. */
  introspectsOthers: Generated<number>
  revokedAt: string | null
}

/** A user who may log in, once a password is set. */
interface AccountsTable {
  userId: number
  role: 'user' | 'admin'
  /** In the PHC string format, with its parameters. */
  passwordHash: string | null
  passwordChangedAt: string | null
  createdAt: string
}

/** At most one open invitation of a user to set a password. */
interface InvitationsTable {
  userId: number
  tokenHash: string
  expiresAt: string
}

/** What a user once allowed a client, remembered across logins. */
interface ConsentsTable {
  userId: number
  clientId: string
  scopes: string
  updatedAt: string
}

/** Counters that slow down the guessing of passwords, shared by all nodes. */
interface LoginTriesTable {
  key: string
  count: number
  endsAt: string
  blockedUntil: string | null
}

/** Everything the authorization server remembers, whatever its kind. */
export interface AuthRecordsTable {
  kind: string
  id: string
  payload: string
  grantId: string | null
  uid: string | null
  userCode: string | null
  /** Whose it is: it goes when the user does. */
  userId: number | null
  consumedAt: string | null
  expiresAt: string | null
}

/** What the authorization server works with, and the people who log in. */
export interface AuthTables {
  clients: ClientsTable
  authRecords: AuthRecordsTable
  signingKeys: SigningKeysTable
  accounts: AccountsTable
  invitations: InvitationsTable
  consents: ConsentsTable
  loginTries: LoginTriesTable
}
