import type { Kysely } from 'kysely'

/** Adds columns for locked accounts, and for the last use of accounts and clients. */
export async function accountLocks({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('accounts').addColumn('locked_at', 'text').execute()
  await schema.alterTable('accounts').addColumn('last_login_at', 'text').execute()
  await schema.alterTable('clients').addColumn('last_used_at', 'text').execute()
}
