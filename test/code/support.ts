import { randomBytes } from 'node:crypto'
import { accountRules } from '../../src/code/accounts.ts'
import { type CodeJobs, type CodeJobsOptions, codeJobs } from '../../src/code/run-jobs.ts'
import type { Definition } from '../../src/definition/service.ts'
import { rowAccess } from '../../src/row-access.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { uuidSource } from '../../src/storage/ids.ts'
import { migrate } from '../../src/storage/migrate.ts'
import type { JobsUnderTest } from '../jobs/support.ts'

/** Migrates a definition's tables and returns the definition's jobs, which use the test's database. */
export async function jobsOf(
  { db, clock }: Pick<JobsUnderTest, 'db' | 'clock'>,
  definition: Definition,
  options: Partial<CodeJobsOptions> = {},
): Promise<CodeJobs['jobs']> {
  const now = () => clock.now
  await migrate(db, { tables: definition.tables })
  const parts = { db, now, random: randomBytes, ...options }
  // Jobs added by hooks or actions are never run.
  const queue = { enqueue: async () => {} } as unknown as CodeJobsOptions['queue']
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const { factsOf } = rowAccess(definition, parts)
  const { jobs } = codeJobs(definition.code, {
    ...{ queue, zone: 'UTC', log, fetch, monotonic: now, factsOf, publicRead: false, requireIfMatch: false },
    ...{ newUuid: uuidSource(parts), all: definition.collections.map(({ declaration }) => declaration) },
    accounts: accountRules(definition.users, { ...parts, sealer: sealer(randomBytes(32), randomBytes) }),
    ...parts,
  })
  return jobs
}
