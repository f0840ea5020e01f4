import { hostname } from 'node:os'
import { backupsUrlOf } from '../../config/backup.ts'
import type { Config } from '../../config/config.ts'
import type { Log } from '../../logging/entries.ts'
import { openResults } from '../../reports/files/open.ts'
import { ConfigError } from '../../startup-errors.ts'
import type { Database } from '../../storage/database.ts'
import { configuredPassphrase, strongPassphrase } from '../passphrase.ts'
import { placeOf } from '../place.ts'
import { inThread } from './thread.ts'

export interface BackupsOptions {
  db: Database
  dataDir: string
  version: string
  log: Log
  now: () => number
}

const checkEveryMs = 15_000

/**
 * Starts the scheduled backups, if they are configured; returns a function that stops them. Throws `ConfigError` for an
 * invalid schedule.
 */
export async function startBackups(config: Config, options: BackupsOptions): Promise<() => Promise<void>> {
  const { schedule: cron, keep } = config.backup
  if (cron === null || !config.service.roles.includes('worker')) return async () => {}
  const { db, dataDir, version, log, now } = options
  // Loaded on demand, because few services need the cron parser.
  const { backupSchedule, latestDue } = await import('./schedule.ts')
  try {
    latestDue(cron, now())
  } catch (error) {
    throw new ConfigError(`PLINTH_BACKUP=${cron} is not valid: ${(error as Error).message}`)
  }
  const configured = configuredPassphrase(config.backup)
  const passphrase = configured === null ? null : strongPassphrase(configured)
  if (passphrase === null) {
    log.warn({}, 'backups not encrypted')
  }
  const backupsUrl = backupsUrlOf(config.backup, config.storage)
  const produce = inThread({ place: placeOf(config, dataDir), version, passphrase, backupsUrl })
  const store = await openResults(backupsUrl)
  const node = `${hostname()} ${process.pid}`
  const schedule = backupSchedule({ db, cron, keep, store, produce, node, now, log })
  const check = () => {
    schedule.check().catch((err) => log.error({ err }, 'backup schedule not checked'))
  }
  check()
  const timer = setInterval(check, checkEveryMs)
  return () => {
    clearInterval(timer)
    return schedule.stop()
  }
}
