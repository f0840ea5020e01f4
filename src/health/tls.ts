import { X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { ageText } from '../backup/describe.ts'
import { baseUrlOf } from '../config/config.ts'
import { checkedPair, readText } from '../tls/pem.ts'
import { type Check, fail, type HealthContext, pass, warn } from './check.ts'

const dayMs = 86_400_000
const warnDays = 30
const failDays = 7

/** Returns the certificate and key files of the listener. `isOwn` is true if the service creates the files. */
function filesOf({ config: { http }, dataDir }: HealthContext) {
  const { tlsCertFile: cert, tlsKeyFile: key } = http
  if (cert && key) return { cert, key, isOwn: false }
  const file = join(dataDir, 'certificates', 'server.pem')
  return { cert: file, key: file, isOwn: true }
}

/** Returns the certificate; null if TLS is off or the service has not created the certificate yet. */
function certificateOf(context: HealthContext) {
  const { cert, key, isOwn } = filesOf(context)
  if (context.config.http.tls === 'off' || (isOwn && !existsSync(cert))) return null
  const { certificate } = checkedPair(cert, readText(cert), key, readText(key))
  return { certificate, cert, isOwn }
}

const covers = (certificate: X509Certificate, name: string) =>
  (isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name)) !== undefined

const authorityFile = ({ dataDir }: HealthContext) => join(dataDir, 'certificates', 'authority.crt')

/** Returns the certificates whose expiry affects clients: the server's chain and the local authority. */
function chainOf(context: HealthContext, file: string, isOwn: boolean) {
  // Both files contain the authority's certificate. The authority's file comes first, so that its path is reported.
  const files = isOwn ? [authorityFile(context), file] : [file]
  return files.flatMap((path) => {
    const blocks = readText(path).match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    return blocks.map((text) => ({ path, endsMs: new X509Certificate(text).validToDate.getTime() }))
  })
}

/** Returns instructions for renewing a certificate in the chain. */
function renewalOf(context: HealthContext, path: string, isOwn: boolean): string {
  if (!isOwn) return `Renew ${path}, and restart the service`
  if (path !== authorityFile(context)) return 'Restart the service, which renews it'
  const key = path.replace(/crt$/, 'key')
  return `Delete ${path} and ${key}, and restart the service, which creates both; clients must then trust the new authority`
}

/** The checks of the certificate. */
export const tlsChecks: readonly Check<HealthContext>[] = [
  {
    id: 'tls.certificate',
    area: 'TLS',
    title: 'Certificate',
    rule: 'Fails if the files cannot be read, do not match, or do not cover the host of the public URL; warns in production if the service made the certificate itself',
    run: (context) => {
      const { config } = context
      if (config.plain) return pass('None: plain HTTP for this machine only')
      if (config.http.tls === 'off') return pass(`The proxy at ${config.http.trustedProxies.join(', ')} terminates TLS`)
      const found = certificateOf(context)
      if (found === null) return pass('The first start creates a certificate')
      const { certificate, cert, isOwn } = found
      const host = new URL(baseUrlOf(config)).hostname.replace(/^\[|\]$/g, '')
      if (!covers(certificate, host)) {
        const cure = isOwn ? 'Restart the service, which renews it' : `Get a certificate for ${host}`
        return fail(`${cert} does not cover ${host}, the host of PLINTH_BASE_URL`, cure)
      }
      if (!isOwn || !config.production) return pass(`${cert} covers ${host}`)
      return warn(
        `${cert} is from the service's own authority, which clients must trust explicitly`,
        'Set PLINTH_TLS_CERT_FILE and PLINTH_TLS_KEY_FILE to a certificate of your authority',
      )
    },
  },
  {
    id: 'tls.expiry',
    area: 'TLS',
    title: 'Certificate expiry',
    rule: 'Warns 30 days before the first certificate of the chain expires, fails 7 days before',
    run: (context) => {
      const found = certificateOf(context)
      if (found === null) return null
      const { cert, isOwn } = found
      const [first] = chainOf(context, cert, isOwn).toSorted((one, other) => one.endsMs - other.endsMs)
      if (first === undefined) return null
      const leftMs = first.endsMs - context.now()
      const date = new Date(first.endsMs).toISOString().slice(0, 10)
      if (leftMs >= warnDays * dayMs) return pass(`Valid for ${ageText(leftMs)}, until ${date}`)
      const detail = `${first.path} ${leftMs < 0 ? 'expired' : 'expires'} on ${date}`
      return (leftMs < failDays * dayMs ? fail : warn)(detail, renewalOf(context, first.path, isOwn))
    },
  },
]
