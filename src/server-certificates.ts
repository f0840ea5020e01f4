import { join } from 'node:path'
import { localCertificates, providedCertificates } from './certificates.ts'
import type { Config } from './config.ts'

/** The key and certificate of the listener: the operator's, or those of the local authority; null where it speaks plain HTTP. */
export async function serverCertificates(config: Config, dataDir: string, now: () => number) {
  if (config.tls === 'off') return null
  const { tlsCertFile, tlsKeyFile, baseUrl } = config
  if (tlsCertFile && tlsKeyFile) return { ...providedCertificates(tlsCertFile, tlsKeyFile), authorityFile: null }
  const hostnames = baseUrl === null ? [] : [new URL(baseUrl).hostname]
  return localCertificates(join(dataDir, 'certificates'), hostnames, now)
}
