import { monthAfter, newestArchive } from '../audit/archives.ts'
import { verifyArchives, verifyAudit } from '../audit/verify.ts'
import { count } from '../backup/describe.ts'
import { resultsUrlOf } from '../config/storage.ts'
import { Unsealable } from '../storage/encryption.ts'
import { iso } from '../storage/ids.ts'
import { type Check, type DatabaseContext, fail, pass, warn } from './check.ts'

/** The number of entries, counted from the newest, that are verified without `--deep`. */
const newestEntries = 1_000
const dayMs = 86_400_000

/** The checks of the audit log. */
export const auditChecks: readonly Check<DatabaseContext>[] = [
  {
    id: 'audit.chain',
    area: 'audit',
    title: 'Hash chain',
    rule: 'Fails if one of the newest 1,000 entries in the database was altered; `--deep` verifies all entries, also the archived ones',
    deep: 'also',
    run: async ({ db, readSealer, isDeep, config, openResults }) => {
      // If the master key is missing or wrong, other checks report it.
      const sealer = await readSealer(db.read).catch((error) => {
        if (error instanceof Unsealable) return null
        throw error
      })
      if (sealer === null) return null
      const cure = 'Compare the log with a backup, and find out who could write to the database or to the archives'
      const verdict = await verifyAudit(db, sealer, undefined, isDeep ? undefined : newestEntries)
      if (!verdict.whole) return fail(`Entry ${verdict.sequence} ${verdict.reason}`, cure)
      const { sequence } = verdict
      const archivedEntries = (await newestArchive(db.read))?.lastSequence ?? 0
      const verified = (entries: number) => `${count(entries, 'entry', 'entries')} of ${sequence} verified`
      if (!isDeep) return pass(verified(Math.min(sequence - archivedEntries, newestEntries)))
      if (archivedEntries === 0) return pass(verified(sequence))
      // Verify the archives last, so that they include any month archived while the database entries were verified.
      const archived = await verifyArchives(db, sealer, await openResults(resultsUrlOf(config.storage)))
      if (!archived.whole) return fail(archived.reason, cure)
      return pass(`${verified(sequence)}, ${archived.sequence} of them in ${count(archived.archives, 'archive')}`)
    },
  },
  {
    id: 'audit.archive',
    area: 'audit',
    title: 'Audit archive',
    rule: 'Warns if entries are still in the database a day after they should have been archived (`PLINTH_AUDIT_MONTHS`)',
    run: async ({ db: { read }, config, databaseNow }) => {
      const { auditMonths } = config.storage
      const archive = await newestArchive(read)
      const archived = archive ? `Archived up to ${archive.month}` : 'Nothing is archived'
      if (auditMonths === null) return pass(`${archived}; all other entries stay in the database`)
      const after = read
        .selectFrom('auditEntries')
        .select('at')
        .where('sequence', '>', archive?.lastSequence ?? 0)
      const oldest = await after.orderBy('sequence').limit(1).executeTakeFirst()
      const firstKept = monthAfter(iso((await databaseNow()) - dayMs).slice(0, 7), -auditMonths)
      if (oldest === undefined || oldest.at >= firstKept) return pass(archived)
      return warn(
        `${archived}; an entry of ${oldest.at.slice(0, 10)} is in the database`,
        'Check that a process with the role worker runs, and see `archived audit entries` in its log',
      )
    },
  },
]
