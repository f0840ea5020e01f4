import { createReadStream, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { openResults } from '../files/open.ts'
import { writeFileAtomically } from '../storage/files/atomic-file.ts'
import { sqlitePath } from '../storage/sqlite/path.ts'
import { placeNew } from './file.ts'
import { type BackupSource, keyFiles } from './place.ts'
import { type BackupTarget, refuseFilledTarget, refuseMismatch } from './target.ts'
import { checkDatabase, isDatabase, type OpenBackupOptions, type OpenedBackup, openBackup } from './verify.ts'

/** A restored backup, with the names of the restored keys and the number of restored results. */
export type Restored = OpenedBackup & { keys: string[]; results: number }

/** Undoes one step of a restore. */
type Undo = () => Promise<unknown>

/**
 * Restores a backup to a place that contains no data. First extracts the backup to a temporary folder and checks it
 * completely. Then restores the results, the keys and, last, the database. If one of these steps fails, removes what it
 * created.
 */
export async function restoreBackup(options: OpenBackupOptions, target: BackupTarget): Promise<Restored> {
  const restored = await extractAndPlace(options, target)
  if (restored.postgres !== null) {
    const { gatherStatistics } = await import('./database/postgres.ts')
    await gatherStatistics(target.place.databaseUrl)
  }
  return restored
}

async function extractAndPlace(options: OpenBackupOptions, target: BackupTarget): Promise<Restored> {
  const { place } = target
  await refuseFilledTarget(target)
  const path = sqlitePath(place.databaseUrl)
  const parent = path === null ? place.dataDir : dirname(path)
  mkdirSync(parent, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(parent, '.restore-'))
  const undo: Undo[] = []
  try {
    for (const name of ['results', 'keys']) await mkdir(join(folder, name))
    const opened = await openBackup(options, {
      onHead: (head) => refuseMismatch(head, target),
      pathOf: (name) => join(folder, isDatabase(name) ? 'database' : name),
    })
    await checkDatabase(opened, join(folder, 'database'), options.signal)
    const staged = { opened, folder, place, undo }
    const results = await placeResults(staged)
    const keys = placeKeys(staged)
    await placeDatabase(staged, options.signal)
    return { ...opened, keys, results }
  } catch (error) {
    for (const step of undo.reverse()) await step()
    throw error
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

interface Staged {
  opened: OpenedBackup
  folder: string
  place: BackupSource
  undo: Undo[]
}

const namesIn = ({ entries }: OpenedBackup, part: string) =>
  entries.map(({ name }) => name).filter((name) => name.startsWith(`${part}/`))

async function placeResults({ opened, folder, place, undo }: Staged): Promise<number> {
  const names = namesIn(opened, 'results')
  const store = await openResults(place.resultsUrl)
  for (const name of names) {
    const writer = await store.create(basename(name))
    try {
      for await (const chunk of createReadStream(join(folder, name))) await writer.write(chunk)
      await writer.finish()
    } catch (error) {
      await writer.discard()
      throw error
    }
    undo.push(() => store.remove(basename(name)))
    await rm(join(folder, name))
  }
  return names.length
}

function placeKeys({ opened, folder, place, undo }: Staged): string[] {
  const included = namesIn(opened, 'keys')
  const files = keyFiles(place.dataDir).filter(
    ({ name, path }) => included.includes(`keys/${name}`) && !existsSync(path),
  )
  for (const { name, path, mode } of files) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writeFileAtomically(path, readFileSync(join(folder, 'keys', name), 'utf8'), { mode, replace: false })
    undo.push(() => rm(path))
  }
  return files.map(({ name }) => name)
}

/**
 * Moves a SQLite database into place, or restores a PostgreSQL dump. This is the last step of a restore: if the restore
 * is interrupted earlier, there is no database, so a service cannot mistake the partly restored data for complete data.
 */
async function placeDatabase({ opened, folder, place }: Staged, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const file = join(folder, 'database')
  const path = sqlitePath(place.databaseUrl)
  if (path !== null) return placeNew(file, path)
  if (opened.postgres === null) throw new Error('The manifest of a PostgreSQL backup names no schema')
  const { restoreDump } = await import('./database/postgres.ts')
  const { excludePostgresNodes } = await import('../storage/postgres/nodes.ts')
  const release = await excludePostgresNodes(place.databaseUrl)
  await restoreDump(place.databaseUrl, file, opened.postgres, signal).finally(release)
}
