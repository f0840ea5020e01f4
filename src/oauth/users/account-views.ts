import { sql } from 'kysely'
import { keysetPage, type PageQuery } from '../../http/pagination.ts'
import { malformedQuery, Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { idOrNone, iso } from '../../storage/ids.ts'
import { caseFold } from '../../storage/rows/page-query.ts'
import type { ScanRequester } from '../../storage/scans/scan.ts'
import type { Role } from './accounts.ts'

/**
 * - `none`: the user has no account, and was never invited
 * - `invited`: the account has no password
 * - `active`: the user can log in
 * - `locked`: an administrator has locked the account
 */
export const accountStatuses = ['none', 'invited', 'active', 'locked'] as const

export type AccountStatus = (typeof accountStatuses)[number]

/** A user and the state of the user's account. */
export interface AccountView {
  /** The user's id. */
  id: number
  name: string
  email: string
  status: AccountStatus
  /** The user's role; null if the user has no account. */
  role: Role | null
  hasPassword: boolean
  passwordChangedAt: string | null
  lockedAt: string | null
  lastLoginAt: string | null
  /** When the open invitation expires; null if there is none. */
  invitationExpiresAt: string | null
}

/** Filters for the list of accounts. */
export interface AccountFilter {
  /** Text that the name or the e-mail address must contain. */
  q?: string
  role?: Role
  status?: AccountStatus
}

const rowsIn = (db: Queryable) =>
  db
    .selectFrom('users')
    .leftJoin('accounts', 'accounts.userId', 'users.id')
    .leftJoin('invitations', 'invitations.userId', 'users.id')
    .select(['users.id', 'users.name', 'users.email', 'accounts.userId as accountId', 'accounts.role'])
    .select(['accounts.passwordChangedAt', 'accounts.lockedAt', 'accounts.lastLoginAt'])
    .select(['invitations.expiresAt as invitationExpiresAt'])
    .select(({ eb }) => eb('accounts.passwordHash', 'is not', null).as('hasPassword'))

type Row = NonNullable<Awaited<ReturnType<ReturnType<typeof rowsIn>['executeTakeFirst']>>>

function viewOf({ accountId, hasPassword, invitationExpiresAt, ...row }: Row, nowMs: number): AccountView {
  const canLogIn = Boolean(hasPassword)
  const isOpen = invitationExpiresAt !== null && invitationExpiresAt > iso(nowMs)
  return {
    ...row,
    status: row.lockedAt !== null ? 'locked' : canLogIn ? 'active' : accountId === null ? 'none' : 'invited',
    hasPassword: canLogIn,
    invitationExpiresAt: isOpen ? invitationExpiresAt : null,
  }
}

/** Returns the account of a user. Throws RESOURCE_NOT_FOUND if there is no such user. */
export async function readAccount({ read }: Database, userId: number, nowMs: number): Promise<AccountView> {
  const row = await rowsIn(read).where('users.id', '=', idOrNone(userId)).executeTakeFirst()
  if (row === undefined) throw new Problem('RESOURCE_NOT_FOUND', `There is no user ${userId}`)
  return viewOf(row, nowMs)
}

/**
 * Returns one page of users with their accounts, newest first. No index covers the filters, so a filtered list is
 * subject to the limits of `scan`.
 */
export async function accountPage(
  { read, scan, engine }: Database,
  { q, role, status, ...query }: PageQuery & AccountFilter,
  requester: ScanRequester,
  nowMs: number,
) {
  const text = q === undefined ? undefined : `%${caseFold(q.trim()).replace(/[!%_]/g, '!$&')}%`
  const isBounded = text === undefined && role === undefined && status === undefined
  const { rows, cursors } = await keysetPage<Row>(query, 1, {
    of: ['accounts', text, role, status],
    keyOf: ({ id }) => [id],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const page = rowsIn(read)
        .$if(after !== null, (users) => users.where('users.id', beyond, idOf(after?.[0])))
        .$if(role !== undefined, (users) => users.where('accounts.role', '=', role as Role))
        .$if(status !== undefined, (users) => users.where(statusIs(status as AccountStatus)))
        .$if(text !== undefined, (users) => users.where(contains(text as string)))
        .orderBy('users.id', order)
        .limit(count)
      return isBounded ? page.execute() : scan(page.where(engine.interruptible('users')), requester)
    },
  })
  return { accounts: rows.map((row) => viewOf(row, nowMs)), cursors }
}

/** Matches nothing if the pattern contains U+0000, because SQLite would truncate the pattern there. */
const contains = (pattern: string) =>
  pattern.includes('\0')
    ? sql<boolean>`1 = 0`
    : sql<boolean>`(users.name_key like ${pattern} escape '!' or users.email_key like ${pattern} escape '!')`

const conditions: Readonly<Record<AccountStatus, string>> = {
  none: 'accounts.user_id is null',
  invited: 'accounts.user_id is not null and accounts.password_hash is null and accounts.locked_at is null',
  active: 'accounts.password_hash is not null and accounts.locked_at is null',
  locked: 'accounts.locked_at is not null',
}
const statusIs = (status: AccountStatus) => sql<boolean>`(${sql.raw(conditions[status])})`

function idOf(value: unknown): number {
  if (!Number.isSafeInteger(value)) throw malformedQuery('cursor', 'is not a valid cursor')
  return idOrNone(value as number)
}
