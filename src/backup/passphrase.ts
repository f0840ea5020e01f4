import { readFileSync } from 'node:fs'
import { BackupRefused } from './errors.ts'

const minLength = 12

export interface PassphraseSource {
  passphrase: string | null
  /** A file whose first line is the passphrase. */
  passphraseFile: string | null
}

/** Returns the configured passphrase; null if there is none. Throws `BackupRefused` if its file cannot be read. */
export function configuredPassphrase({ passphrase, passphraseFile }: PassphraseSource): string | null {
  if (passphraseFile === null) return passphrase
  try {
    return readFileSync(passphraseFile, 'utf8').split(/\r?\n/, 1)[0] as string
  } catch (error) {
    throw new BackupRefused(`The passphrase cannot be read: ${(error as Error).message}`)
  }
}

/** Returns the passphrase if it is long enough for encryption; otherwise throws `BackupRefused`. */
export function strongPassphrase(passphrase: string): string {
  const { length } = [...passphrase]
  if (length >= minLength) return passphrase
  throw new BackupRefused(`The passphrase has ${length} characters; use ${minLength} or more`)
}
