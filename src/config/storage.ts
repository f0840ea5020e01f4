import { join, resolve } from 'node:path'
import { url } from './address.ts'
import { Expected, named, optional, type SettingValues, setting, text } from './setting.ts'

/** Matches the URL of a folder or a bucket. */
export const storeForm = /^(file:.+|s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w./-]*)?)$/
const keyForm = /^([0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?)$/

/** Settings for where data is stored, and for the key that encrypts its secrets. */
export const storageSettings = {
  dataDir: named('PLINTH_DATA_DIR', text('./data', 'Folder of the database, results, keys and certificates')),
  databaseUrl: named(
    'DATABASE_URL',
    optional(
      url(
        'Database; a SQLite file in the data folder by default',
        /^(postgres(ql)?:\/\/|file:).+/,
        'postgres://… or file:…',
      ),
    ),
  ),
  directUrl: named(
    'PLINTH_DATABASE_DIRECT_URL',
    optional(
      url(
        'The PostgreSQL server itself, if DATABASE_URL leads to a connection pooler',
        /^postgres(ql)?:\/\/.+/,
        'postgres://…',
      ),
    ),
  ),
  resultsUrl: named(
    'PLINTH_RESULTS_URL',
    optional(
      text('', 'Storage of report files; the data folder by default', storeForm, 'file:/path or s3://bucket/prefix'),
    ),
  ),
  auditMonths: named(
    'PLINTH_AUDIT_MONTHS',
    setting(
      (value) => {
        if (value === 'off') return null
        if (!/^[1-9]\d{0,2}$/.test(value)) throw new Expected('a whole number from 1 to 999, or off')
        return Number(value)
      },
      '13',
      'Whole months of the audit log in the database; older ones are archived with the results; off archives none',
    ),
  ),
  masterKey: named(
    'PLINTH_MASTER_KEY',
    optional(
      text('', '32 bytes as hex or base64; created on the first run', keyForm, '32 bytes as 64 hex digits or base64'),
    ),
  ),
  newMasterKey: named(
    'PLINTH_NEW_MASTER_KEY',
    optional(
      text('', 'The key to which plinth keys rotate-master rotates', keyForm, '32 bytes as 64 hex digits or base64'),
    ),
  ),
}

type Storage = SettingValues<typeof storageSettings>

/**
 * Returns the URL of the SQLite file or the PostgreSQL server. If a connection pooler is also configured, returns the
 * URL of the server itself.
 */
export const databaseUrlOf = ({ databaseUrl, directUrl, dataDir }: Storage): string =>
  directUrl ?? databaseUrl ?? `file:${join(resolve(dataDir), 'plinth.db')}`

/** Returns the URL of the connection pooler in front of the server; null if there is none. */
export const poolerUrlOf = ({ databaseUrl, directUrl }: Storage): string | null =>
  directUrl === null || directUrl === databaseUrl ? null : databaseUrl

/** Returns the URL (`file:` or `s3:`) under which report files are stored. */
export const resultsUrlOf = ({ resultsUrl, dataDir }: Storage): string =>
  resultsUrl ?? `file:${join(resolve(dataDir), 'results')}`

/** Returns an error if a direct URL is configured for a SQLite file, which cannot have a pooler. */
export const storageErrors = ({ databaseUrl, directUrl }: Storage): string[] =>
  directUrl !== null && databaseUrl?.startsWith('file:')
    ? ['PLINTH_DATABASE_DIRECT_URL is not valid with DATABASE_URL=file:…: expected a pooler of the same server']
    : []
