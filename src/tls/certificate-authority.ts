// The x509 package requires this polyfill, which must be loaded first.
import 'reflect-metadata'
import { type KeyObject, X509Certificate } from 'node:crypto'
import * as x509 from '@peculiar/x509'
import { newTlsKey, type Pair, publicBytes } from './pem.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const authorityDays = 3_650
const leafDays = 397
const p256 = { name: 'ECDSA', namedCurve: 'P-256' }

/** A certificate's subject alternative name. */
export interface SubjectName {
  type: 'dns' | 'ip'
  value: string
}

/** Creates a self-signed CA certificate that cannot sign certificates of other CAs (RFC 5280 §4.2.1.9). */
export async function authorityCertificate(key: KeyObject, now: number): Promise<X509Certificate> {
  const name = new x509.Name('CN=Plinth local authority')
  return signed({ key, subject: name, issuer: name, signer: key, now, days: authorityDays }, [
    new x509.BasicConstraintsExtension(true, 0, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    await x509.SubjectKeyIdentifierExtension.create(publicBytes(key)),
  ])
}

/** Creates a key and a certificate for these names, signed by the authority. */
export async function newLeaf(authority: Pair, names: SubjectName[], now: number): Promise<Pair> {
  const key = newTlsKey()
  const subject = new x509.Name('CN=localhost')
  const issuer = new x509.X509Certificate(authority.certificate.raw).subjectName
  const certificate = await signed({ key, subject, issuer, signer: authority.key, now, days: leafDays }, [
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
  subject: x509.Name
  issuer: x509.Name
  signer: KeyObject
  now: number
  days: number
}

async function signed(parties: Parties, extensions: x509.Extension[]): Promise<X509Certificate> {
  const from = parties.now - hourMs
  const made = await x509.X509CertificateGenerator.create({
    subject: parties.subject,
    issuer: parties.issuer,
    publicKey: publicBytes(parties.key),
    signingKey: parties.signer.toCryptoKey(p256, false, ['sign']),
    notBefore: new Date(from),
    notAfter: new Date(from + parties.days * dayMs),
    extensions,
  })
  return new X509Certificate(new Uint8Array(made.rawData))
}
