import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { checkServerIdentity } from 'node:tls'
import { promisify } from 'node:util'
import { type Certificates, localCertificates, providedCertificates } from '../../src/tls/certificates.ts'

const DAY_MS = 86_400_000
const START = Date.UTC(2030, 0, 1)
const SPKI = { type: 'spki', format: 'pem' } as const
const at = (ms: number) => () => ms
const run = promisify(execFile)

const root = mkdtempSync(join(tmpdir(), 'plinth-certificates-'))
after(() => rmSync(root, { recursive: true, force: true }))

const emptyFolder = () => join(mkdtempSync(join(root, 'case-')), 'tls')
const text = (...path: string[]) => readFileSync(join(...path), 'utf8')
const mode = (...path: string[]) => statSync(join(...path)).mode & 0o777

const leafOf = ({ cert }: Certificates) => new X509Certificate(cert)
const authorityOf = ({ authorityFile }: Certificates) => new X509Certificate(readFileSync(authorityFile))

const anotherKey = () =>
  generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: SPKI,
  }).privateKey

/** Asserts that the key matches the leaf, that the CA signed the leaf, and that `cert` is the leaf followed by the CA. */
function assertSound(certificates: Certificates): void {
  const leaf = leafOf(certificates)
  const authority = authorityOf(certificates)
  assert.equal(leaf.checkPrivateKey(createPrivateKey(certificates.key)), true)
  assert.equal(leaf.checkIssued(authority), true)
  assert.equal(leaf.verify(authority.publicKey), true)
  assert.equal(certificates.cert, leaf.toString() + authority.toString())
}

describe('a server with a certificate from localCertificates', () => {
  let certificates: Certificates
  let port: number
  const server = createServer((_request, response) => response.end('hello'))

  /** Sends a request to `host`. Trusts only `ca`, and accepts only a certificate for `name`. */
  function reach(name: string, ca = text(certificates.authorityFile), host = '127.0.0.1'): Promise<string> {
    const identity = (_host: string, peer: Parameters<typeof checkServerIdentity>[1]) => checkServerIdentity(name, peer)
    return new Promise((resolve, reject) => {
      const call = request({ host, port, ca, agent: false, checkServerIdentity: identity }, (response) => {
        response.setEncoding('utf8').once('data', resolve)
      })
      call.on('error', reject).end()
    })
  }

  before(async () => {
    certificates = await localCertificates(emptyFolder(), ['plinth.example.test', '192.0.2.7'], Date.now)
    server.setSecureContext({ key: certificates.key, cert: certificates.cert })
    await new Promise<void>((resolve) => server.listen(0, resolve))
    port = (server.address() as AddressInfo).port
  })
  after(() => server.close())

  for (const name of ['localhost', '127.0.0.1', '::1', 'plinth.example.test', '192.0.2.7']) {
    it(`is trusted as ${name} by a client that trusts only the CA`, async () => {
      assert.equal(await reach(name), 'hello')
    })
  }

  const noIpv6 = !Object.values(networkInterfaces()).some((addresses) => addresses?.some((a) => a.address === '::1'))
  it('is trusted over IPv6', { skip: noIpv6 }, async () => {
    assert.equal(await reach('::1', text(certificates.authorityFile), '::1'), 'hello')
  })

  it('is rejected under a different name or address', async () => {
    await assert.rejects(reach('other.example.test'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
    await assert.rejects(reach('192.0.2.8'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  })

  it('is rejected by a client that trusts a different local CA', async () => {
    const other = await localCertificates(emptyFolder(), [], Date.now)
    await assert.rejects(reach('localhost', text(other.authorityFile)), /certificate/)
  })
})

describe('localCertificates on disk', () => {
  it('creates the folder with mode 0700 and the keys with mode 0600, and leaves no temporary file', async () => {
    const folder = emptyFolder()
    const { authorityFile } = await localCertificates(folder, [], at(START))
    assert.deepEqual(readdirSync(folder).sort(), ['authority.crt', 'authority.key', 'server.pem'])
    assert.equal(mode(folder), 0o700)
    assert.equal(mode(folder, 'authority.key'), 0o600)
    assert.equal(mode(folder, 'server.pem'), 0o600)
    assert.equal(isAbsolute(authorityFile), true)
    assert.doesNotMatch(text(authorityFile), /PRIVATE KEY/)
  })

  it('restricts the permissions of a folder that other users could access', async () => {
    const folder = mkdtempSync(join(root, 'open-'))
    chmodSync(folder, 0o755)
    await localCertificates(folder, [], at(START))
    assert.equal(mode(folder), 0o700)
  })

  it('reuses all files on a second start', async () => {
    const folder = emptyFolder()
    const first = await localCertificates(folder, ['a.example.test'], at(START))
    const second = await localCertificates(folder, ['a.example.test'], at(START + DAY_MS))
    assert.equal(first.created, true)
    assert.deepEqual(second, { ...first, created: false })
  })

  it('renews a leaf that is valid for less than 30 more days, otherwise reuses it; the CA stays the same', async () => {
    const folder = emptyFolder()
    const first = await localCertificates(folder, [], at(START))
    const authority = text(first.authorityFile)
    const limit = leafOf(first).validToDate.getTime() - 30 * DAY_MS
    assert.equal((await localCertificates(folder, [], at(limit))).created, false)
    const renewed = await localCertificates(folder, [], at(limit + 1000))
    assert.equal(renewed.created, true)
    assert.notEqual(renewed.key, first.key)
    assert.equal(leafOf(renewed).validFromDate.getTime(), limit + 1000 - 3_600_000)
    assert.equal(text(renewed.authorityFile), authority)
    assertSound(renewed)
  })

  it('renews the leaf for a new name or address, but not otherwise', async () => {
    const folder = emptyFolder()
    const start = (...hostnames: string[]) => localCertificates(folder, hostnames, at(START))
    await start('*.a.example.test')
    assert.equal((await start('LOCALHOST', '0:0:0:0:0:0:0:1', '[::1]', 'x.a.example.test')).created, false)
    assert.equal((await start('b.example.test')).created, true)
    assert.equal((await start('b.example.test', 'b.example.test')).created, false)
    assert.equal((await start('2001:db8::1')).created, true)
    assert.equal((await start()).created, false)
  })

  const damage: Record<string, (pem: string) => string> = {
    empty: () => '',
    'half-written': (pem) => pem.slice(0, pem.length / 2),
    'missing its key': (pem) => pem.slice(pem.indexOf('-----BEGIN CERTIFICATE')),
    'combined with a different key': (pem) => anotherKey() + pem.slice(pem.indexOf('-----BEGIN CERTIFICATE')),
  }
  for (const [name, change] of Object.entries(damage)) {
    it(`replaces a leaf that is ${name}`, async () => {
      const folder = emptyFolder()
      const first = await localCertificates(folder, [], at(START))
      writeFileSync(join(folder, 'server.pem'), change(text(folder, 'server.pem')))
      const second = await localCertificates(folder, [], at(START))
      assert.equal(second.created, true)
      assert.equal(authorityOf(second).fingerprint256, authorityOf(first).fingerprint256)
      assertSound(second)
    })
  }

  it('replaces a leaf issued by a different CA', async () => {
    const [folder, other] = [emptyFolder(), emptyFolder()]
    await localCertificates(folder, [], at(START))
    await localCertificates(other, [], at(START))
    writeFileSync(join(folder, 'server.pem'), text(other, 'server.pem'))
    const second = await localCertificates(folder, [], at(START))
    assert.equal(second.created, true)
    assertSound(second)
  })
})

const filesOf = (folder: string) => Object.fromEntries(readdirSync(folder).map((name) => [name, text(folder, name)]))

/** Replaces the CA's certificate and key with those of a leaf. */
function leafAsAuthority(folder: string): void {
  const pem = text(folder, 'server.pem')
  writeFileSync(join(folder, 'authority.crt'), new X509Certificate(pem).toString())
  writeFileSync(join(folder, 'authority.key'), pem)
}

describe('localCertificates with a damaged CA', () => {
  const damage: [string, RegExp, (folder: string) => void][] = [
    ['a broken certificate', /authority\.crt contains no PEM/, (f) => writeFileSync(join(f, 'authority.crt'), 'x')],
    ['a broken key', /authority\.key contains no/, (f) => writeFileSync(join(f, 'authority.key'), '')],
    ['a missing key', /authority\.key cannot be read/, (f) => rmSync(join(f, 'authority.key'))],
    [
      "another CA's key",
      /authority\.key is not the private key of/,
      (f) => writeFileSync(join(f, 'authority.key'), anotherKey()),
    ],
    ['a leaf instead of the CA', /authority\.crt is not a CA certificate/, leafAsAuthority],
  ]
  for (const [name, message, harm] of damage) {
    it(`throws an error that identifies the file, and replaces nothing, for ${name}`, async () => {
      const folder = emptyFolder()
      await localCertificates(folder, [], at(START))
      harm(folder)
      const before = filesOf(folder)
      await assert.rejects(localCertificates(folder, [], at(START)), message)
      await assert.rejects(
        localCertificates(folder, [], at(START)),
        /restore authority\.crt and authority\.key, or delete/,
      )
      assert.deepEqual(filesOf(folder), before)
    })
  }

  it('throws an error that identifies an expired CA', async () => {
    const folder = emptyFolder()
    await localCertificates(folder, [], at(START))
    const expiry = /authority\.crt expired at 2039-12-29T23:00:00\.000Z/
    await assert.rejects(localCertificates(folder, [], at(START + 3650 * DAY_MS)), expiry)
  })

  it('completes the CA with the existing key if its creation was interrupted', async () => {
    const folder = emptyFolder()
    const first = await localCertificates(folder, [], at(START))
    const before = authorityOf(first).publicKey.export(SPKI)
    rmSync(first.authorityFile)
    const second = await localCertificates(folder, [], at(START))
    assert.deepEqual(authorityOf(second).publicKey.export(SPKI), before)
    assert.equal(second.created, false)
    assertSound(second)
  })
})

describe('localCertificates with hostnames', () => {
  it('lists each normalized name once', async () => {
    const hostnames = [
      'LOCALHOST',
      '127.0.0.1',
      '0:0:0:0:0:0:0:1',
      '[2001:DB8:0::7]',
      'bücher.example',
      '*.Example.test',
    ]
    const { subjectAltName } = leafOf(await localCertificates(emptyFolder(), hostnames, at(START)))
    const expected =
      'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, IP Address:2001:DB8:0:0:0:0:0:7, ' +
      'DNS:xn--bcher-kva.example, DNS:*.example.test'
    assert.equal(subjectAltName, expected)
  })

  it('keeps an IPv4-mapped address in IPv6 form', async () => {
    const folder = emptyFolder()
    const { subjectAltName } = leafOf(await localCertificates(folder, ['::ffff:192.0.2.7'], at(START)))
    assert.match(subjectAltName ?? '', /IP Address:0:0:0:0:0:FFFF:C000:207$/)
    assert.equal((await localCertificates(folder, ['::ffff:192.0.2.7'], at(START))).created, false)
  })

  for (const hostname of [
    '',
    'a b',
    'a:443',
    'https://a.test',
    'a/b',
    'a@b',
    'a..b',
    'a,b',
    'a.*.test',
    'fe80::1%eth0',
  ]) {
    it(`rejects '${hostname}'`, async () => {
      const refusal = { message: /^'.*' is neither a host name nor an IP address/ }
      await assert.rejects(localCertificates(emptyFolder(), [hostname], at(START)), refusal)
    })
  }
})

describe('localCertificates called concurrently', () => {
  it('creates one CA and matching pairs, even if several processes start at once', async () => {
    const folder = emptyFolder()
    const module = JSON.stringify(new URL('../../src/tls/certificates.ts', import.meta.url).href)
    const script = `const { localCertificates } = await import(${module})
      console.log(JSON.stringify(await localCertificates(process.argv[1], [], () => ${START})))`
    const start = () => run(process.execPath, ['--input-type=module', '-e', script, folder])
    const made = (await Promise.all(Array.from({ length: 4 }, start))).map(({ stdout }) => JSON.parse(stdout))
    for (const certificates of made) assertSound(certificates)
    const next = await localCertificates(folder, [], at(START))
    assert.equal(next.created, false)
    assert.equal(
      made.some(({ key }) => key === next.key),
      true,
    )
    assert.deepEqual(readdirSync(folder).sort(), ['authority.crt', 'authority.key', 'server.pem'])
  })

  it('creates one CA and matching pairs, even if the calls interleave in one process', async () => {
    const folder = emptyFolder()
    const calls = Array.from({ length: 8 }, () => localCertificates(folder, [], at(START)))
    for (const certificates of await Promise.all(calls)) assertSound(certificates)
    assert.equal((await localCertificates(folder, [], at(START))).created, false)
  })
})

const noOpenssl = spawnSync('openssl', ['version']).status !== 0

describe('the files of localCertificates, verified with openssl', { skip: noOpenssl }, () => {
  let folder: string
  const printed = async (file: string) => (await run('openssl', ['x509', '-in', file, '-noout', '-text'])).stdout

  before(async () => {
    folder = emptyFolder()
    await localCertificates(folder, ['plinth.example.test'], Date.now)
  })

  it('the leaf passes strict verification as a server certificate', async () => {
    const checks = ['-x509_strict', '-purpose', 'sslserver', '-verify_hostname', 'plinth.example.test']
    const files = ['-CAfile', join(folder, 'authority.crt'), join(folder, 'server.pem')]
    assert.match((await run('openssl', ['verify', ...checks, ...files])).stdout, /server\.pem: OK/)
  })

  it('the leaf fails verification for a different host name', async () => {
    const files = ['-CAfile', join(folder, 'authority.crt'), join(folder, 'server.pem')]
    await assert.rejects(run('openssl', ['verify', '-verify_hostname', 'other.example.test', ...files]), /mismatch/)
  })

  it('the CA has path length 0 and may sign certificates and CRLs', async () => {
    const shown = await printed(join(folder, 'authority.crt'))
    assert.match(shown, /Subject: CN ?= ?Plinth local authority/)
    assert.match(shown, /Basic Constraints: critical\s+CA:TRUE, pathlen:0/)
    assert.match(shown, /Key Usage: critical\s+Certificate Sign, CRL Sign/)
    assert.match(shown, /Subject Key Identifier/)
    assert.match(shown, /prime256v1/)
  })

  it('the leaf has the extensions, the validity and the serial number of a server certificate', async () => {
    const shown = await printed(join(folder, 'server.pem'))
    assert.match(shown, /Basic Constraints: critical\s+CA:FALSE/)
    assert.match(shown, /Key Usage: critical\s+Digital Signature\n/)
    assert.match(shown, /Extended Key Usage: ?\s+TLS Web Server Authentication\n/)
    const subjectKey = (await printed(join(folder, 'authority.crt'))).match(
      /Subject Key Identifier: ?\s+([\dA-F:]+)/,
    )?.[1]
    assert.match(shown, new RegExp(`Authority Key Identifier: ?\\s+(keyid:)?${subjectKey}`))
    const leaf = new X509Certificate(text(folder, 'server.pem'))
    assert.equal(leaf.validToDate.getTime() - leaf.validFromDate.getTime(), 397 * DAY_MS)
    assert.match(leaf.serialNumber, /^[\dA-F]{20,32}$/)
  })
})

describe('providedCertificates', () => {
  let folder: string
  let certFile: string
  let keyFile: string
  const file = (name: string, content: string) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }

  before(async () => {
    const made = await localCertificates(emptyFolder(), [], Date.now)
    folder = mkdtempSync(join(root, 'provided-'))
    certFile = file('own.crt', made.cert)
    keyFile = file('own.key', made.key)
  })

  it('returns the contents of the files unchanged', () => {
    assert.deepEqual(providedCertificates(certFile, keyFile), { key: text(keyFile), cert: text(certFile) })
  })

  it('throws an error that identifies a missing or unreadable file', () => {
    assert.throws(() => providedCertificates(join(folder, 'no.crt'), keyFile), /no\.crt cannot be read: ENOENT/)
    assert.throws(() => providedCertificates(certFile, join(folder, 'no.key')), /no\.key cannot be read: ENOENT/)
    assert.throws(() => providedCertificates(folder, keyFile), /cannot be read: EISDIR/)
  })

  it('throws an error that identifies a file that is not PEM', () => {
    const notCertificate = /own\.key contains no PEM certificate/
    const der = new X509Certificate(text(certFile)).raw.toString('latin1')
    assert.throws(() => providedCertificates(keyFile, keyFile), notCertificate)
    assert.throws(() => providedCertificates(file('der.crt', der), keyFile), /der\.crt contains no PEM certificate/)
    assert.throws(() => providedCertificates(certFile, certFile), /own\.crt contains no unencrypted PEM private key/)
  })

  it('throws an error that identifies an encrypted key', () => {
    const encrypted = createPrivateKey(text(keyFile))
      .export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' })
      .toString()
    const refusal = /locked\.key contains no unencrypted PEM private key/
    assert.throws(() => providedCertificates(certFile, file('locked.key', encrypted)), refusal)
  })

  it('throws an error that identifies both files if the key does not match the certificate', () => {
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' })
    for (const key of [anotherKey(), rsa.toString()]) {
      const refusal = /other\.key is not the private key of .*own\.crt/
      assert.throws(() => providedCertificates(certFile, file('other.key', key)), refusal)
    }
  })
})
