import { hostname } from 'node:os'
import { backupsUrlOf } from '../../config/backup.ts'
import type { Config } from '../../config/config.ts'
import { openResults } from '../../files/open.ts'
import type { Log } from '../../logging/entries.ts'
import { ConfigError } from '../../startup-errors.ts'
import type { Database } from '../../storage/database.ts'
import { type Backups, openBackups } from '../api/backups.ts'
import type { Encryption } from '../archive/age.ts'
import { configuredPassphrase, strongPassphrase } from '../passphrase.ts'
import { placeOf } from '../place.ts'
import type { BackupSchedule } from './schedule.ts'
import { backUpInThread, verifyInThread } from './thread.ts'

export interface BackupScheduleOptions {
  db: Database
  dataDir: string
  version: string
  log: Log
  now: () => number
  monotonic: () => number
  later: (ms: number, run: () => void) => () => void
  workFactor?: Encryption['workFactor']
}

/** The operations that the routes need, and functions that start and stop the schedule of backups. */
export interface StartableBackups {
  backups: Backups
  /**
   * Starts making scheduled and requested backups, if they are configured and this process is a worker. Throws
   * `ConfigError` for an invalid schedule.
   */
  start: () => Promise<void>
  /** Stops the schedule, the backup in progress and the check in progress. */
  stop: () => Promise<void>
}

const checkEveryMs = 15_000

/** Returns whether a schedule or a location for backups is configured. */
const isConfigured = ({ backup: { schedule, url } }: Config): boolean => schedule !== null || url !== null

/** Prepares the backups of a service. */
export function configuredBackups(config: Config, options: BackupScheduleOptions): StartableBackups {
  const { dataDir, log, ...sources } = options
  const location = backupsUrlOf(config.backup, config.storage)
  const place = placeOf(config, dataDir)
  let schedule: BackupSchedule | undefined
  let timer: NodeJS.Timeout | undefined
  const check = () => {
    schedule?.check().catch((err) => log.error({ err }, 'backup schedule not checked'))
  }
  const backups = openBackups({
    ...{ ...sources, hostname: hostname(), pid: process.pid, location, isConfigured: isConfigured(config) },
    check: async ({ name, sizeBytes }, signal) => {
      const passphrase = configuredPassphrase(config.backup)
      return verifyInThread({ name, sizeBytes, place, passphrase, backupsUrl: location }, signal)
    },
    onRequested: check,
    onError: (err) => log.error({ what: 'backups', err }, 'background work failed'),
  })
  return {
    backups,
    start: async () => {
      if (!isConfigured(config) || !config.service.roles.includes('worker')) return
      schedule = await openSchedule(config, { ...options, location })
      check()
      timer = setInterval(check, checkEveryMs)
    },
    stop: async () => {
      clearInterval(timer)
      await Promise.all([schedule?.stop(), backups.stop()])
    },
  }
}

async function openSchedule(
  config: Config,
  { db, dataDir, version, log, now, location, workFactor }: BackupScheduleOptions & { location: string },
): Promise<BackupSchedule> {
  const { schedule: cron, keep } = config.backup
  // Loaded on demand, because few services need the cron parser.
  const { backupSchedule, latestDue } = await import('./schedule.ts')
  try {
    if (cron !== null) latestDue(cron, now())
  } catch (error) {
    throw new ConfigError(`PLINTH_BACKUP=${cron} is not valid: ${(error as Error).message}`)
  }
  const configured = configuredPassphrase(config.backup)
  const passphrase = configured === null ? null : strongPassphrase(configured)
  if (passphrase === null) log.warn({}, 'backups not encrypted')
  const produce = backUpInThread({
    place: placeOf(config, dataDir),
    version,
    passphrase,
    workFactor,
    backupsUrl: location,
  })
  const store = await openResults(location)
  const node = `${hostname()} ${process.pid}`
  return backupSchedule({ db, cron, keep, store, location, produce, node, now, log })
}
