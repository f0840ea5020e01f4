import { constants } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sizeText } from '../backup/describe.ts'
import { keyFiles } from '../backup/place.ts'
import { backupsUrlOf } from '../config/backup.ts'
import { databaseUrlOf, resultsUrlOf } from '../config/storage.ts'
import { resultsFolder } from '../files/open.ts'
import { sqlitePath } from '../storage/sqlite/path.ts'
import { existingMasterKey, masterKeyFile } from '../stores.ts'
import { type Check, type Finding, fail, type HealthContext, pass, unlessDevelopment, warn, worst } from './check.ts'

const ofOthers = 0o077
const minFreeBytes = 512 * 1024 ** 2
const lowFreeBytes = 2 * 1024 ** 3
const lowFreeShare = 0.1

/** Returns the stats of a file; undefined if it does not exist. */
const statsOf = (path: string) =>
  stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
    return undefined
  })

const modeText = (mode: number) => (mode & 0o7777).toString(8).padStart(4, '0')

const resultsFolderOf = ({ config }: Pick<HealthContext, 'config'>) => resultsFolder(resultsUrlOf(config.storage))
type Folders = Pick<HealthContext, 'config' | 'dataDir'>

const databaseFileOf = ({ config }: Pick<HealthContext, 'config'>) => sqlitePath(databaseUrlOf(config.storage))

/** Returns the folders that contain the service's data, each with a name for its content. */
function dataFolders(context: Folders): [name: string, folder: string][] {
  const { config, dataDir } = context
  const database = databaseFileOf(context)
  const backups = config.backup.schedule && resultsFolder(backupsUrlOf(config.backup, config.storage))
  const results = resultsFolderOf(context)
  return [
    ['data', dataDir],
    ...(database === null ? [] : [['database', dirname(database)] satisfies [string, string]]),
    ...(results === null ? [] : [['results', results] satisfies [string, string]]),
    ...(backups ? [['backups', backups] satisfies [string, string]] : []),
  ]
}

/** Returns the folder or, if it does not exist, its closest ancestor that does. */
async function existing(folder: string): Promise<string> {
  return (await statsOf(folder)) === undefined ? existing(dirname(folder)) : folder
}

/** Rejects if no file can be created in the folder. */
async function checkWritable(folder: string): Promise<void> {
  if (!(await stat(folder)).isDirectory()) throw new Error(`${folder} is not a folder`)
  await access(folder, constants.W_OK | constants.X_OK)
}

/** Returns the free space of each file system that stores data. */
export async function spaces(context: Folders) {
  const found = new Map<number, { names: string[]; folder: string }>()
  for (const [name, wanted] of dataFolders(context)) {
    const folder = await existing(wanted)
    const { dev } = await stat(folder)
    found.set(dev, { folder, names: [...(found.get(dev)?.names ?? []), name] })
  }
  return Promise.all(
    [...found.values()].map(async ({ names, folder }) => {
      const { bavail, blocks, bsize } = await statfs(folder)
      return { name: names.join(', '), freeBytes: bavail * bsize, totalBytes: blocks * bsize }
    }),
  )
}

/** Returns the finding for the free space of these file systems. */
export function spaceFinding(found: Awaited<ReturnType<typeof spaces>>): Finding {
  const judged = found.map(({ name, freeBytes, totalBytes }) => {
    const isLow = freeBytes < lowFreeBytes || freeBytes < totalBytes * lowFreeShare
    const status = freeBytes < minFreeBytes ? 'fail' : isLow ? 'warn' : 'pass'
    return { status, text: `${name}: ${sizeText(freeBytes)} of ${sizeText(totalBytes)} free` } as const
  })
  const status = worst(judged.map((one) => one.status))
  const detail = judged.map(({ text }) => text).join('; ')
  const cure = 'Enlarge the disk, delete other files, or lower PLINTH_RESULT_TTL and PLINTH_BACKUP_KEEP'
  return status === 'pass' ? pass(detail) : { status, detail, cure }
}

/** The checks of files and disks. */
export const fileChecks: readonly Check<HealthContext>[] = [
  {
    id: 'files.data-folder',
    area: 'files',
    title: 'Data folder',
    rule: 'Fails in production if other users can access it, and warns in development; warns if it does not exist or belongs to another user',
    run: async ({ config, dataDir, runtime }) => {
      const stats = await statsOf(dataDir)
      if (stats === undefined) return warn(`${dataDir} does not exist`, 'The first `plinth serve` creates it')
      if (process.platform === 'win32') return pass(dataDir)
      const mode = modeText(stats.mode)
      if ((stats.mode & ofOthers) !== 0) {
        return unlessDevelopment(config)(`${dataDir} has mode ${mode}`, `Run \`chmod 700 ${dataDir}\``)
      }
      const uid = runtime.getuid?.()
      if (uid === stats.uid) return pass(`${dataDir}, mode ${mode}`)
      return warn(
        `${dataDir} belongs to user id ${stats.uid}, and this process runs as ${uid}`,
        'Run the service and its commands as the owner of the data folder',
      )
    },
  },
  {
    id: 'files.private',
    area: 'files',
    title: 'Private files',
    rule: 'Fails in production if other users can access the database or a key, and warns in development',
    run: async (context) => {
      if (process.platform === 'win32') return null
      const { config, dataDir } = context
      const database = databaseFileOf(context)
      const databases = database === null ? [] : ['', '-wal', '-shm', '-search'].map((ending) => database + ending)
      const keys = keyFiles(dataDir).flatMap(({ path, mode }) => (mode === 0o600 ? [path] : []))
      const own = [...databases, ...keys].map((path) => ({ path, mask: ofOthers, remedy: 'chmod 600' }))
      // The group may read a TLS key that the operator supplies, because such keys are commonly shared that way.
      const given = config.http.tlsKeyFile ? [{ path: config.http.tlsKeyFile, mask: 0o006, remedy: 'chmod o=' }] : []
      const open: { path: string; remedy: string }[] = []
      for (const { path, mask, remedy } of [...own, ...given]) {
        if (((await statsOf(path))?.mode ?? 0) & mask) open.push({ path, remedy })
      }
      if (open.length === 0) return pass('Only the owner can access the database and the keys')
      const commands = Object.entries(Object.groupBy(open, ({ remedy }) => remedy)).map(
        ([remedy, files = []]) => `\`${[remedy, ...files.map(({ path }) => path)].join(' ')}\``,
      )
      return unlessDevelopment(config)(
        `Others can access ${open.map(({ path }) => path).join(', ')}`,
        `Run ${commands.join(' and ')}`,
      )
    },
  },
  {
    id: 'files.space',
    area: 'files',
    title: 'Free space',
    rule: 'Warns below 2 GiB or 10 %, fails below 512 MiB, on each file system that stores data',
    run: async (context) => spaceFinding(await spaces(context)),
  },
  {
    id: 'files.results',
    area: 'files',
    title: 'Result store',
    rule: 'Fails if report files cannot be stored: the folder is not writable, or the bucket does not respond',
    run: async (context) => {
      const url = resultsUrlOf(context.config.storage)
      const folder = resultsFolderOf(context)
      try {
        if (folder === null) await (await context.openResults(url)).probe()
        else await checkWritable(await existing(folder))
        return pass(folder ?? url)
      } catch (error) {
        return fail(
          `${folder ?? url} cannot be used: ${(error as Error).message}`,
          folder === null ? 'Check the bucket, the network and the AWS_ credentials' : `Make ${folder} writable`,
        )
      }
    },
  },
  {
    id: 'keys.master',
    area: 'keys',
    title: 'Master key',
    rule: 'Warns if there is none yet; fails if it is not a key, or if the key of an existing database is missing',
    run: async (context) => {
      const { config, dataDir } = context
      if (config.storage.masterKey !== null) return pass('Set by PLINTH_MASTER_KEY')
      const file = join(dataDir, masterKeyFile)
      const restore = `Restore ${file} from a backup, or set PLINTH_MASTER_KEY, before the next start`
      try {
        if (existingMasterKey(null, dataDir) !== undefined) return pass(file)
      } catch (error) {
        return fail((error as Error).message, restore)
      }
      const database = databaseFileOf(context)
      if (database === null || (await statsOf(database)) === undefined) {
        return warn('There is none yet', 'The first `plinth serve` creates it; or set PLINTH_MASTER_KEY')
      }
      return fail(`${file} does not exist, so the secrets in ${database} cannot be decrypted`, restore)
    },
  },
]
