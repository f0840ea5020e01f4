import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { createBackup, refuseMissingDatabase } from '../backup/create.ts'
import { progressShown, sizeText, summaryLines, summaryOf } from '../backup/describe.ts'
import { BackupBroken, BackupRefused } from '../backup/errors.ts'
import { newBackupFile, refuseUnwritable } from '../backup/file.ts'
import { configuredPassphrase, strongPassphrase } from '../backup/passphrase.ts'
import { existingKeyFiles, placeOf } from '../backup/place.ts'
import { restoreBackup } from '../backup/restore.ts'
import { verifyBackup } from '../backup/verify.ts'
import { backupsUrlOf } from '../config/backup.ts'
import type { Config } from '../config/config.ts'
import { type ShowProgress, screen } from './demo/screen.ts'
import { print, printJson, readSecret } from './print.ts'

interface Options {
  passphraseFile?: string
  quiet?: boolean
  json?: boolean
}

export interface BackupOptions extends Options {
  verify?: boolean
  encrypt?: boolean
  withoutKeys?: boolean
}

const monotonic = () => performance.now()
const warn = (text: string) => void process.stderr.write(`plinth: ${text}\n`)

/** Writes a backup to a new file, or checks one. */
export async function backup(config: Config, file: string, options: BackupOptions, version: string): Promise<void> {
  if (options.verify) return verify(config, file, options)
  const place = placeOf(config, resolve(config.storage.dataDir))
  refuseMissingDatabase(place)
  const withKeys = !options.withoutKeys
  refuseUnwritable(file)
  const passphrase = await newPassphrase(config, options)
  const writer = await newBackupFile(file)
  try {
    if (passphrase === null && withKeys && existingKeyFiles(place).length > 0) {
      warn(
        `${file} will contain the master key in plain form: keep it as secret as the key, or use --encrypt or --without-keys`,
      )
    }
    const created = await interruptible((signal) =>
      shown(options, 'Backup', (show) => {
        const onProgress = progressShown(show, monotonic)
        const random = (size: number) => randomBytes(size)
        return createBackup({ place, version, passphrase, withKeys, now: Date.now, random, signal, onProgress }, writer)
      }),
    )
    const { missingResults, damagedResults } = created
    if (missingResults.length > 0)
      warn(`${missingResults.length} results are not in the result store, so the backup lacks them`)
    if (damagedResults.length > 0)
      warn(`${damagedResults.length} results differ from what was stored, and are included as they are`)
    report(options, { file, ...summaryOf(created) }, `Wrote ${file}, ${sizeText(created.sizeBytes)}`)
  } finally {
    await writer.discard()
  }
}

/** Checks a backup completely. Throws `BackupBroken`, with exit code 1, if anything was altered or is missing. */
async function verify(config: Config, file: string, options: Options): Promise<void> {
  const verified = await interruptible((signal) =>
    shown(options, 'Verify', (show) =>
      verifyBackup({
        file,
        signal,
        passphrase: () => passphraseFor(config, options),
        onProgress: progressShown(show, monotonic),
      }),
    ),
  ).catch((error) => {
    throw error instanceof BackupBroken
      ? new BackupBroken(`${file} is broken: ${error.message}`, { cause: error })
      : error
  })
  report(
    options,
    { file, ...summaryOf(verified) },
    `${file} is complete and unaltered, ${sizeText(verified.sizeBytes)}`,
  )
}

const afterRestore = `
Next: start the service with \`plinth serve\`. It sends the webhook deliveries that were waiting or in flight when the backup
was taken; receivers recognize those that they already got by their \`webhook-id\`.`

/** Restores a backup to the configured data folder, database and result store, which must be empty. */
export async function restore(config: Config, file: string, options: Options): Promise<void> {
  const place = placeOf(config, resolve(config.storage.dataDir))
  const target = { place, backupsUrl: backupsUrlOf(config.backup, config.storage) }
  const restored = await interruptible((signal) =>
    shown(options, 'Restore', (show) =>
      restoreBackup(
        { file, signal, passphrase: () => passphraseFor(config, options), onProgress: progressShown(show, monotonic) },
        target,
      ),
    ),
  ).catch((error) => {
    const isBroken = error instanceof BackupBroken
    throw isBroken
      ? new BackupBroken(`${file} is broken, and nothing was restored: ${error.message}`, { cause: error })
      : error
  })
  const summary = { file, ...summaryOf(restored), keys: restored.keys }
  report(options, summary, `Restored ${file} to ${place.dataDir}`, afterRestore)
}

/**
 * Runs `work` and shows its progress on standard error, except with `quiet`, or with `json` if standard error is not a
 * terminal.
 */
function shown<T>({ quiet, json }: Options, label: string, work: (show: ShowProgress) => Promise<T>): Promise<T> {
  if (quiet || (json && !process.stderr.isTTY)) return work(() => {})
  return screen(process.stderr, process.env).step(label, work, () => 'done')
}

type Reported = { file: string } & ReturnType<typeof summaryOf>

function report({ quiet, json }: Options, summary: Reported, headline: string, closing = ''): void {
  if (json) printJson(summary)
  if (json || quiet) return
  print([headline, ...summaryLines(summary, Date.now()).map((line) => `  ${line}`)].join('\n'))
  if (closing !== '') print(closing)
}

/** Runs `work` with an AbortSignal that is aborted on Ctrl-C or SIGTERM. */
async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const interruption = new AbortController()
  const stop = () => interruption.abort()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, stop)
  try {
    return await work(interruption.signal)
  } catch (error) {
    throw interruption.signal.aborted ? new Error('Interrupted; nothing was left behind', { cause: error }) : error
  } finally {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, stop)
  }
}

const given = ({ backup }: Config, { passphraseFile }: Options): string | null =>
  configuredPassphrase(passphraseFile === undefined ? backup : { passphrase: null, passphraseFile })

/**
 * Returns the passphrase for a new backup; null for a backup without encryption. If encryption is requested but no
 * passphrase is configured, asks for one; on a terminal, twice.
 */
async function newPassphrase(config: Config, options: BackupOptions): Promise<string | null> {
  const configured = given(config, options)
  if (configured !== null || !options.encrypt) return configured && strongPassphrase(configured)
  const passphrase = strongPassphrase(await readSecret('Passphrase for the backup: '))
  if (process.stdin.isTTY && (await readSecret('The same again: ')) !== passphrase) {
    throw new BackupRefused('The passphrases differ')
  }
  return passphrase
}

const passphraseFor = async (config: Config, options: Options): Promise<string> =>
  given(config, options) ?? readSecret('Passphrase of the backup: ')
