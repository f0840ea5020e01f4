import { createPublicKey } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import type { Config } from '../config/config.ts'
import { keepPrivate } from '../private-files.ts'
import { ConfigError } from '../startup-errors.ts'
import { writeFileAtomically } from '../storage/files/atomic-file.ts'
import type { SubjectName } from './certificate-authority.ts'
import { checkedPair, newTlsKey, type Pair, parsedKey, pem, readText } from './pem.ts'

const dayMs = 86_400_000
const renewalDays = 30

/** Loads the signing library only when it is needed, because loading takes 100 ms. */
const signing = () => import('./certificate-authority.ts')

/** An HTTPS server's key and certificate as PEM, and the absolute path of the CA certificate that clients need. */
export interface Certificates {
  key: string
  /** The server's certificate followed by the CA's certificate. */
  cert: string
  /** The file for `curl --cacert`; never contains a key. */
  authorityFile: string
  /** Whether this call created the server's certificate. */
  created: boolean
}

/**
 * Loads a local CA and a server certificate from `folder` (mode 0700), creating them if necessary (RFC 5280, ECDSA
 * P-256). The server certificate covers localhost, 127.0.0.1, ::1 and `hostnames`; it is replaced if it expires within
 * 30 days, does not cover all of these names, or cannot be used with its key and the CA. `now` returns epoch ms. Throws
 * for an invalid hostname, and for broken or expired CA files, which are never replaced.
 */
export async function localCertificates(
  folder: string,
  hostnames: readonly string[],
  now: () => number,
): Promise<Certificates> {
  const names = subjectNames(hostnames)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  chmodSync(folder, 0o700)
  const authority = await localAuthority(folder, now())
  // The key and the certificate share one file, so that concurrent renewals by two processes leave a matching pair.
  const file = join(folder, 'server.pem')
  const existing = reusableLeaf(file, authority, names, now())
  const leaf = existing ?? (await (await signing()).newLeaf(authority, names, now()))
  const key = pem(leaf.key)
  const cert = leaf.certificate.toString() + authority.certificate.toString()
  if (!existing) writeFileAtomically(file, key + cert, { mode: 0o600, replace: true })
  return { key, cert, authorityFile: resolve(folder, 'authority.crt'), created: !existing }
}

/**
 * Reads the operator's PEM certificate (with any chain) and unencrypted PEM private key. Throws an Error that
 * identifies the file that is missing, unreadable or not PEM, or both files if the key does not match the certificate.
 */
export function providedCertificates(certFile: string, keyFile: string): { key: string; cert: string } {
  const texts = { key: readText(keyFile), cert: readText(certFile) }
  checkedPair(certFile, texts.cert, keyFile, texts.key)
  return texts
}

async function localAuthority(folder: string, now: number): Promise<Pair> {
  const certFile = join(folder, 'authority.crt')
  const keyFile = join(folder, 'authority.key')
  // The first process to finish writes the key, and the certificate is derived from that key. If the certificate
  // exists, so does the key, so check for the certificate first.
  if (!existsSync(certFile)) {
    if (!existsSync(keyFile)) writeFileAtomically(keyFile, pem(newTlsKey()), { mode: 0o600, replace: false })
    const key = authorityFiles(() => parsedKey(keyFile, readText(keyFile)))
    const certificate = await (await signing()).authorityCertificate(key, now)
    writeFileAtomically(certFile, certificate.toString(), { mode: 0o644, replace: false })
  }
  return authorityFiles(() => checkedAuthority(certFile, keyFile, now))
}

function checkedAuthority(certFile: string, keyFile: string, now: number): Pair {
  const authority = checkedPair(certFile, readText(certFile), keyFile, readText(keyFile))
  const { ca, validToDate } = authority.certificate
  const curve = authority.key.asymmetricKeyDetails?.namedCurve
  if (curve !== 'prime256v1') throw new Error(`${keyFile} is not an EC P-256 key`)
  if (!ca) throw new Error(`${certFile} is not a CA certificate`)
  if (validToDate.getTime() <= now) throw new Error(`${certFile} expired at ${validToDate.toISOString()}`)
  return authority
}

function authorityFiles<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    const remedy =
      'restore authority.crt and authority.key, or delete both to create a new CA, which clients must then trust'
    throw new Error(`${(cause as Error).message}; ${remedy}`, { cause })
  }
}

function reusableLeaf(file: string, authority: Pair, names: SubjectName[], now: number): Pair | undefined {
  try {
    const text = readText(file)
    const leaf = checkedPair(file, text, file, text)
    const { certificate } = leaf
    const lasts = certificate.validToDate.getTime() - now >= renewalDays * dayMs
    const covers = names.every(({ type, value }) =>
      type === 'ip' ? certificate.checkIP(value) : certificate.checkHost(value),
    )
    return lasts && covers && certificate.verify(createPublicKey(authority.key)) ? leaf : undefined
  } catch {
    return undefined
  }
}

function subjectNames(hostnames: readonly string[]): SubjectName[] {
  const names = new Set(['localhost', '127.0.0.1', '::1', ...hostnames.map(canonicalName)])
  return [...names].map((value) => ({ type: isIP(value) ? 'ip' : 'dns', value }))
}

function canonicalName(hostname: string): string {
  const bare = hostname.replace(/^\[(.*)\]$/, '$1')
  const host = isIP(bare) === 6 ? `[${bare}]` : bare.replace(/[\s/?#@:\\]/g, '|')
  // Replace characters that would end the host with '|', which the parser rejects. It also normalizes addresses and
  // converts international names to ASCII.
  const name = URL.parse(`https://${host}`)?.hostname.replace(/^\[|\]$/g, '') ?? ''
  if (isIP(name) || /^(\*\.)?[\w-]+(\.[\w-]+)*$/.test(name)) return name
  throw new Error(`'${hostname}' is neither a host name nor an IP address, so no certificate can be created for it`)
}

/** Returns the listener's key and certificate: the operator's, or those of the local CA; null for plain HTTP. */
export async function serverCertificates(config: Config, dataDir: string, now: () => number) {
  if (config.http.tls === 'off') return null
  const { tlsCertFile, tlsKeyFile, baseUrl } = config.http
  if (tlsCertFile && tlsKeyFile) {
    if (config.production) refuseWorldReadable(tlsKeyFile)
    return { ...providedCertificates(tlsCertFile, tlsKeyFile), authorityFile: null, created: false }
  }
  const hostnames = baseUrl === null ? [] : [new URL(baseUrl).hostname]
  const folder = join(dataDir, 'certificates')
  keepPrivate(config.production, folder, join(folder, 'authority.key'), join(folder, 'server.pem'))
  return localCertificates(folder, hostnames, now)
}

/** Rejects a key file that all users can access. Group access is allowed, because keys are commonly shared that way. */
function refuseWorldReadable(keyFile: string): void {
  const mode = statSync(keyFile, { throwIfNoEntry: false })?.mode ?? 0
  if (process.platform === 'win32' || (mode & 0o006) === 0) return
  throw new ConfigError(`PLINTH_TLS_KEY_FILE=${keyFile} is accessible to all users: run chmod o= ${keyFile}`)
}
