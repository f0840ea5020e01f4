import type { KeyObject } from 'node:crypto'
import { createPrivateKey, createPublicKey, generateKeyPairSync, randomUUID, X509Certificate } from 'node:crypto'
import { chmodSync, existsSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import type * as X509 from '@peculiar/x509'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const AUTHORITY_DAYS = 3650
const LEAF_DAYS = 397
const RENEWAL_DAYS = 30
const P256 = { name: 'ECDSA', namedCurve: 'P-256' }

/** What an HTTPS server needs, as PEM texts, and the absolute path of the certificate its clients are to trust. */
export interface Certificates {
  key: string
  /** The server's certificate followed by the authority's. */
  cert: string
  /** For `curl --cacert`; never holds a key. */
  authorityFile: string
  /** Whether this call made the server's certificate, rather than found it. */
  created: boolean
}

interface Pair {
  key: KeyObject
  certificate: X509Certificate
}

interface SubjectName {
  type: 'dns' | 'ip'
  value: string
}

/**
 * Loads or makes, in `folder` (mode 0700), a local authority and a server certificate for localhost, 127.0.0.1, ::1 and
 * `hostnames` (RFC 5280, ECDSA P-256), the latter anew when under 30 days remain or a name is missing; `now` gives
 * epoch milliseconds; throws for an invalid hostname, and for broken or expired authority files, never replaced.
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
  // One file, so that two processes renewing at once leave one's pair or the other's, never half of each.
  const file = join(folder, 'server.pem')
  const kept = keptLeaf(file, authority, names, now())
  const leaf = kept ?? (await newLeaf(authority, names, now()))
  const key = pem(leaf.key)
  const cert = leaf.certificate.toString() + authority.certificate.toString()
  if (!kept) place(file, key + cert, 0o600, renameSync)
  return { key, cert, authorityFile: resolve(folder, 'authority.crt'), created: !kept }
}

/**
 * Reads the operator's PEM certificate (with any chain) and unencrypted PEM private key; throws an Error that names the
 * file which is missing, unreadable or no PEM, or both files when the key is not the certificate's.
 */
export function providedCertificates(certFile: string, keyFile: string): { key: string; cert: string } {
  const texts = { key: readText(keyFile), cert: readText(certFile) }
  checkedPair(certFile, texts.cert, keyFile, texts.key)
  return texts
}

async function localAuthority(folder: string, now: number): Promise<Pair> {
  const certFile = join(folder, 'authority.crt')
  const keyFile = join(folder, 'authority.key')
  // The key is placed first and by whichever process comes first; the certificate follows from it. Seeing a certificate
  // therefore means its key was there before, so the certificate has to be looked for first.
  if (!existsSync(certFile)) {
    if (!existsSync(keyFile)) place(keyFile, pem(newKey()), 0o600, linkUnlessThere)
    const key = authorityFiles(() => parsedKey(keyFile, readText(keyFile)))
    place(certFile, (await authorityCertificate(key, now)).toString(), 0o644, linkUnlessThere)
  }
  return authorityFiles(() => checkedAuthority(certFile, keyFile, now))
}

function checkedAuthority(certFile: string, keyFile: string, now: number): Pair {
  const authority = checkedPair(certFile, readText(certFile), keyFile, readText(keyFile))
  const { ca, validToDate } = authority.certificate
  const curve = authority.key.asymmetricKeyDetails?.namedCurve
  if (curve !== 'prime256v1') throw new Error(`${keyFile} is not an EC P-256 key`)
  if (!ca) throw new Error(`${certFile} is not the certificate of an authority`)
  if (validToDate.getTime() <= now) throw new Error(`${certFile} expired at ${validToDate.toISOString()}`)
  return authority
}

function authorityFiles<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    const remedy =
      'restore authority.crt and authority.key, or delete both to start an authority that clients must trust anew'
    throw new Error(`${(cause as Error).message}; ${remedy}`, { cause })
  }
}

async function authorityCertificate(key: KeyObject, now: number): Promise<X509Certificate> {
  const x509 = await loadX509()
  const name = new x509.Name('CN=Plinth local authority')
  return signed(x509, { key, subject: name, issuer: name, signer: key, now, days: AUTHORITY_DAYS }, [
    new x509.BasicConstraintsExtension(true, 0, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    await x509.SubjectKeyIdentifierExtension.create(publicBytes(key)),
  ])
}

async function newLeaf(authority: Pair, names: SubjectName[], now: number): Promise<Pair> {
  const x509 = await loadX509()
  const key = newKey()
  const subject = new x509.Name('CN=localhost')
  const issuer = new x509.X509Certificate(authority.certificate.raw).subjectName
  const certificate = await signed(x509, { key, subject, issuer, signer: authority.key, now, days: LEAF_DAYS }, [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
    new x509.SubjectAlternativeNameExtension(names),
    await x509.SubjectKeyIdentifierExtension.create(publicBytes(key)),
    await x509.AuthorityKeyIdentifierExtension.create(publicBytes(authority.key)),
  ])
  return { key, certificate }
}

interface Parties {
  key: KeyObject
  subject: X509.Name
  issuer: X509.Name
  signer: KeyObject
  now: number
  days: number
}

async function signed(x509: typeof X509, parties: Parties, extensions: X509.Extension[]): Promise<X509Certificate> {
  const from = parties.now - HOUR_MS
  const made = await x509.X509CertificateGenerator.create({
    subject: parties.subject,
    issuer: parties.issuer,
    publicKey: publicBytes(parties.key),
    signingKey: parties.signer.toCryptoKey(P256, false, ['sign']),
    notBefore: new Date(from),
    notAfter: new Date(from + parties.days * DAY_MS),
    extensions,
  })
  return new X509Certificate(new Uint8Array(made.rawData))
}

async function loadX509(): Promise<typeof X509> {
  // tsyringe, inside the package, refuses to load without the reflect-metadata polyfill, yet is given no class with
  // constructor parameters to look up: that there is no metadata is the true answer.
  const reflect = Reflect as { getMetadata?: () => undefined; getOwnMetadata?: () => undefined }
  reflect.getMetadata ??= () => undefined
  reflect.getOwnMetadata ??= () => undefined
  return await import('@peculiar/x509')
}

function keptLeaf(file: string, authority: Pair, names: SubjectName[], now: number): Pair | undefined {
  try {
    const text = readText(file)
    const leaf = checkedPair(file, text, file, text)
    const { certificate } = leaf
    const lasts = certificate.validToDate.getTime() - now >= RENEWAL_DAYS * DAY_MS
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
  // The URL parser gives the one spelling of an address and the ASCII form of an international name; it refuses a '|'.
  const name = URL.parse(`https://${host}`)?.hostname.replace(/^\[|\]$/g, '') ?? ''
  if (isIP(name) || /^(\*\.)?[\w-]+(\.[\w-]+)*$/.test(name)) return name
  throw new Error(`'${hostname}' is neither a host name nor an IP address, so no certificate can be made for it`)
}

function newKey(): KeyObject {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
}

function pem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString()
}

function publicBytes(key: KeyObject): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createPublicKey(key).export({ type: 'spki', format: 'der' }))
}

function checkedPair(certFile: string, certText: string, keyFile: string, keyText: string): Pair {
  const certificate = parsed(certFile, 'PEM certificate', () => new X509Certificate(certText))
  const key = parsedKey(keyFile, keyText)
  if (!certificate.checkPrivateKey(key)) throw new Error(`${keyFile} is not the private key of ${certFile}`)
  return { key, certificate }
}

function parsedKey(file: string, text: string): KeyObject {
  return parsed(file, 'unencrypted PEM private key', () => createPrivateKey(text))
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`${file} cannot be read: ${(cause as Error).message}`, { cause })
  }
}

function parsed<T>(file: string, expected: string, parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    throw new Error(`${file} holds no ${expected}`, { cause })
  }
}

function place(file: string, text: string, mode: number, move: (from: string, to: string) => void): void {
  const temporary = `${file}.${randomUUID()}.tmp`
  try {
    writeFileSync(temporary, text, { mode, flag: 'wx', flush: true })
    move(temporary, file)
  } finally {
    rmSync(temporary, { force: true })
  }
}

function linkUnlessThere(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
