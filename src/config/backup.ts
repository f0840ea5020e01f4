import { join, resolve } from 'node:path'
import { integer, named, optional, type SettingValues, text } from './setting.ts'
import { storeForm } from './storage.ts'

/** Checks only that there are five fields; the cron expression is validated when the schedule starts. */
const cronForm = /^([\w*/,?#-]+\s+){4}[\w*/,?#-]+$/

/** Settings for backups, and for the schedule on which a worker makes them. */
export const backupSettings = {
  schedule: named(
    'PLINTH_BACKUP',
    optional(
      text('', 'When to make backups: five cron fields, in UTC', cronForm, 'five cron fields, such as 0 3 * * *'),
    ),
  ),
  keep: named(
    'PLINTH_BACKUP_KEEP',
    integer(1, 1_000, 7, 'Scheduled backups to keep, and requested ones; older ones are removed'),
  ),
  url: named(
    'PLINTH_BACKUP_URL',
    optional(
      text(
        '',
        'Where scheduled backups go; backups in the data folder by default',
        storeForm,
        'file:/path or s3://bucket/prefix',
      ),
    ),
  ),
  passphrase: named('PLINTH_BACKUP_PASSPHRASE', optional(text('', 'Encrypts backups, and decrypts them'))),
  passphraseFile: named('PLINTH_BACKUP_PASSPHRASE_FILE', optional(text('', 'File that contains the passphrase'))),
}

/** Returns the URL (`file:` or `s3:`) of the scheduled backups. */
export const backupsUrlOf = ({ url }: SettingValues<typeof backupSettings>, { dataDir }: { dataDir: string }): string =>
  url ?? `file:${join(resolve(dataDir), 'backups')}`
