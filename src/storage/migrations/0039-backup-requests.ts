import type { Kysely } from 'kysely'

/**
 * Extends the table of backup runs to requested backups. Adds the progress of a run, facts about its file, and the
 * outcome of the last verification.
 */
export async function backupRequests({ schema }: Kysely<unknown>): Promise<void> {
  const texts = [
    ...['requested_by', 'step', 'location', 'taken_at', 'sha256'],
    ...[
      'verify_status',
      'verify_node',
      'verify_started_at',
      'verify_lease_until',
      'verify_finished_at',
      'verify_error',
    ],
  ]
  const numbers = ['done_bytes', 'total_bytes']
  const counts = ['encrypted', 'missing_results', 'damaged_results']
  for (const name of texts) await schema.alterTable('backups').addColumn(name, 'text').execute()
  for (const name of numbers) await schema.alterTable('backups').addColumn(name, 'bigint').execute()
  for (const name of counts) await schema.alterTable('backups').addColumn(name, 'integer').execute()
}
