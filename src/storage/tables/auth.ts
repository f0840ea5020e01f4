import type { ColumnType, Generated } from 'kysely'
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
  /** 1: the operator's own client, which needs no consent. */
  firstParty: Generated<number>
  /** 1: may receive users' passwords (the password grant). */
  trusted: Generated<number>
  /** 1: may introspect the tokens of other clients. */
  introspectsOthers: Generated<number>
  /** The labels as a JSON object. */
  labels: Generated<string>
  /** When a token of the client was last used in a request that counted against a limit, to the minute. */
  lastUsedAt: string | null
  /** `calls/seconds` and requests per month, for each account of the client; null means the defaults. */
  rate: ColumnType<string | null, string | null | undefined, string | null>
  quota: ColumnType<number | null, number | null | undefined, number | null>
  revokedAt: string | null
}

/** Accounts of users who may log in once they have set a password. */
interface AccountsTable {
  userId: number
  role: 'user' | 'admin'
  /** In PHC string format, which includes the parameters. */
  passwordHash: string | null
  passwordChangedAt: string | null
  /** Null unless an administrator has locked the account. */
  lockedAt: string | null
  lastLoginAt: string | null
  createdAt: string
}

/** Invitations to set a password; a user has at most one. */
interface InvitationsTable {
  userId: number
  tokenHash: string
  expiresAt: string
}

/** Scopes that a user has consented to for a client, remembered across logins. */
interface ConsentsTable {
  userId: number
  clientId: string
  scopes: string
  updatedAt: string
}

/** Counts of failed logins, shared by all nodes; they limit password guessing. */
interface LoginTriesTable {
  key: string
  count: number
  endsAt: string
  blockedUntil: string | null
}

/** Authorization server records: sessions, grants, codes, tokens and so on. */
export interface AuthRecordsTable {
  kind: string
  id: string
  payload: string
  grantId: string | null
  uid: string | null
  userCode: string | null
  /** The user that the record belongs to; the record is deleted with the user. */
  userId: number | null
  consumedAt: string | null
  expiresAt: string | null
}

/** Tables for the authorization server and login accounts. */
export interface AuthTables {
  clients: ClientsTable
  authRecords: AuthRecordsTable
  signingKeys: SigningKeysTable
  accounts: AccountsTable
  invitations: InvitationsTable
  consents: ConsentsTable
  loginTries: LoginTriesTable
}
