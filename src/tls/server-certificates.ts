import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { keepPrivate } from '../private-files.ts'
import { ConfigError } from '../startup-errors.ts'
import { localCertificates, providedCertificates } from './certificates.ts'

/** The listener's key and certificate: the operator's, or those of the local CA; null for plain HTTP. */
export async function serverCertificates(config: Config, dataDir: string, now: () => number) {
  if (config.http.tls === 'off') return null
  const { tlsCertFile, tlsKeyFile, baseUrl } = config.http
  if (tlsCertFile && tlsKeyFile) {
    if (config.production) refuseWorldReadable(tlsKeyFile)
    return { ...providedCertificates(tlsCertFile, tlsKeyFile), authorityFile: null }
  }
  const hostnames = baseUrl === null ? [] : [new URL(baseUrl).hostname]
  const folder = join(dataDir, 'certificates')
  keepPrivate(config.production, folder, join(folder, 'authority.key'), join(folder, 'server.pem'))
  return localCertificates(folder, hostnames, now)
}

/** Owner and group are the operator's choice; giving a group read access is a common way to distribute keys. */
function refuseWorldReadable(keyFile: string): void {
  const mode = statSync(keyFile, { throwIfNoEntry: false })?.mode ?? 0
  if (process.platform === 'win32' || (mode & 0o006) === 0) return
  throw new ConfigError(`PLINTH_TLS_KEY_FILE=${keyFile} is accessible to all users: run chmod o= ${keyFile}`)
}
