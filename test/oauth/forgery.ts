import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { CompactSign } from 'jose'
import { issuer } from './support.ts'

export const start = Date.parse('2026-11-21T10:00:00.000Z')
export const iat = start / 1_000
export const kid = 'own'
export const own = rsa()
export const keys = { publicKeys: new Map([[kid, own.publicKey]]) }
const claims = { sub: 'alpha', client_id: 'alpha', scope: 'reports:read books:write', iss: issuer, aud: issuer, iat }
export const fields = { ...claims, exp: iat + 900, jti: 'token-1' }

export function rsa(modulusLength = 2_048) {
  return generateKeyPairSync('rsa', { modulusLength })
}

type Change = Record<string, unknown>

/** Signs arbitrary claims, including those that a library would reject. */
export function signed(change: Change = {}, header: Change = {}, key: KeyObject = own.privateKey): Promise<string> {
  return signedText(JSON.stringify({ ...fields, ...change }), header, key)
}

export function signedText(payload: string, header: Change = {}, key: KeyObject = own.privateKey): Promise<string> {
  const protectedHeader = { alg: 'RS256', typ: 'JWT', kid, ...header }
  return new CompactSign(Buffer.from(payload)).setProtectedHeader(protectedHeader).sign(key)
}

export const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

export function unsigned(header: Change, signature = ''): string {
  return `${encoded({ typ: 'JWT', kid, ...header })}.${encoded(fields)}.${signature}`
}

/** Signs an arbitrary header with our key, including one that a library would reject. */
export function signedAnyhow(header: Change): string {
  const input = `${encoded({ alg: 'RS256', typ: 'JWT', kid, ...header })}.${encoded(fields)}`
  return `${input}.${sign('sha256', Buffer.from(input), own.privateKey).toString('base64url')}`
}

export function hmac(secret: string | Buffer, header: Change = {}): string {
  const input = `${encoded({ alg: 'HS256', typ: 'JWT', kid, ...header })}.${encoded(fields)}`
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
}

export const pem = own.publicKey.export({ type: 'spki', format: 'pem' }).toString()
export const other = rsa()

/** Invalid tokens, keyed by the threat they represent. */
export const attacks: Record<string, () => string | Promise<string>> = {
  'T-JWT-01 alg none': () => unsigned({ alg: 'none' }),
  'T-JWT-01 alg None': () => unsigned({ alg: 'None' }),
  'T-JWT-01 alg nOnE': () => unsigned({ alg: 'nOnE' }),
  'T-JWT-01 alg empty': () => unsigned({ alg: '' }),
  'T-JWT-01 alg missing': () => unsigned({}),
  'T-JWT-01 alg none with a signature': () => unsigned({ alg: 'none' }, 'AAAA'),
  'T-JWT-01 an empty signature': () => unsigned({ alg: 'RS256' }),
  'T-JWT-01 no signature part': () => unsigned({ alg: 'none' }).replace(/\.$/, ''),
  'T-JWT-02 HS256 with the public key as PEM': () => hmac(pem),
  'T-JWT-02 HS256 with the PEM without its final newline': () => hmac(pem.trim()),
  'T-JWT-02 HS256 with the PEM in CRLF': () => hmac(pem.replaceAll('\n', '\r\n')),
  'T-JWT-02 HS256 with the PEM after a space': () => hmac(` ${pem}`),
  'T-JWT-02 HS256 with the DER': () => hmac(own.publicKey.export({ type: 'spki', format: 'der' })),
  'T-JWT-02 HS256 with the JWK': () => hmac(JSON.stringify(own.publicKey.export({ format: 'jwk' }))),
  'T-JWT-02 HS256 under the name RS256': () => hmac(pem, { alg: 'RS256' }),
  'T-JWT-03 an unknown kid': () => signed({}, { kid: 'other' }),
  'T-JWT-03 no kid': () => signed({}, { kid: undefined }),
  'T-JWT-03 a kid that is a path': () => signed({}, { kid: '../../dev/null' }),
  'T-JWT-03 a kid that is SQL': () => signed({}, { kid: "' or 1=1 --" }),
  'T-JWT-03 a kid that is not a string': () => signedAnyhow({ kid: [kid] }),
  'T-JWT-03 a kid of 1 MB': () => signed({}, { kid: 'x'.repeat(1_000_000) }),
  'T-JWT-04 jku': () => signed({}, { jku: 'https://evil.example/jwks' }, other.privateKey),
  'T-JWT-04 jwk': () => signed({}, { jwk: other.publicKey.export({ format: 'jwk' }) }, other.privateKey),
  'T-JWT-04 x5u': () => signed({}, { x5u: 'https://evil.example/cert' }, other.privateKey),
  'T-JWT-05 crit with an unknown name': () => signedAnyhow({ crit: ['x'], x: 1 }),
  'T-JWT-05 crit that is empty': () => signedAnyhow({ crit: [] }),
  'T-JWT-05 b64 false': () => signedAnyhow({ b64: false, crit: ['b64'] }),
  'T-JWT-05 a JSON serialization': () => JSON.stringify({ payload: encoded(fields), signature: 'AAAA' }),
  'T-JWT-05 five parts as in a JWE': () => `${unsigned({ alg: 'RSA-OAEP', enc: 'A256GCM' }, 'AAAA')}.AAAA.AAAA`,
  'T-JWT-05 a nested token': async () => signedText(JSON.stringify(await signed()), { cty: 'JWT' }),
  'T-JWT-06 another key': () => signed({}, {}, other.privateKey),
  'T-JWT-06 another algorithm of the same key': () => signed({}, { alg: 'PS256' }),
  'T-JWT-06 RS512': () => signed({}, { alg: 'RS512' }),
  'T-JWT-08 an ID token': () => signed({ aud: 'alpha', scope: undefined }),
  'T-JWT-08 no typ': () => signed({}, { typ: undefined }),
  'T-JWT-08 another typ': () => signed({}, { typ: 'logout+jwt' }),
  'T-JWT-08 another issuer': () => signed({ iss: 'https://evil.example' }),
  'T-JWT-08 an issuer with ours as a prefix': () => signed({ iss: `${issuer}/` }),
  'T-JWT-08 issuers as an array': () => signed({ iss: [issuer] }),
  'T-JWT-08 no issuer': () => signed({ iss: undefined }),
  'T-JWT-08 another audience': () => signed({ aud: 'https://other.example' }),
  'T-JWT-08 audiences as an array': () => signed({ aud: [issuer, 'https://other.example'] }),
  'T-JWT-08 no audience': () => signed({ aud: undefined }),
  'T-JWT-08 scope as an array': () => signed({ scope: ['reports:read'] }),
  'T-JWT-08 no scope': () => signed({ scope: undefined }),
  'T-JWT-08 sub as a number': () => signed({ sub: 1 }),
  'T-JWT-08 no client_id': () => signed({ client_id: undefined }),
  'T-JWT-08 no jti': () => signed({ jti: undefined }),
  'T-JWT-08 an unknown client': () => signed({ client_id: 'nobody' }),
  'T-JWT-08 a duplicate claim': () => signedText(JSON.stringify(fields).replace('{', '{"scope":"admin",')),
  'T-JWT-09 no exp': () => signed({ exp: undefined }),
  'T-JWT-09 exp as a string': () => signed({ exp: `${iat + 900}` }),
  'T-JWT-09 exp with a fraction': () => signed({ exp: iat + 900.5 }),
  'T-JWT-09 exp of 1e400': () => signedText(JSON.stringify(fields).replace(`"exp":${iat + 900}`, '"exp":1e400')),
  'T-JWT-09 nbf in the future': () => signed({ nbf: iat + 31 }),
  'T-JWT-09 iat in the future': () => signed({ iat: iat + 31 }),
  'T-JWT-09 no iat': () => signed({ iat: undefined }),
  'a changed payload': async () => {
    const [header, , signature] = (await signed()).split('.')
    return `${header}.${encoded({ ...fields, scope: 'admin' })}.${signature}`
  },
  'a changed signature': async () => (await signed()).replace(/[^.]{8}$/, 'AAAAAAAA'),
  'a payload that is not an object': () => signedText('[]'),
  'a payload that is not JSON': () => signedText('{'),
  'three dots': () => '..',
  'an opaque text': () => 'opaque',
  'an empty text': () => '',
}
