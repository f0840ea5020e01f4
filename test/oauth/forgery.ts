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

/** Signs a token with the service's key and an arbitrary header, including headers that a library would reject. */
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

/** Invalid tokens, keyed by attack. */
export const attacks: Record<string, () => string | Promise<string>> = {
  'alg none (T-JWT-01)': () => unsigned({ alg: 'none' }),
  'alg None (T-JWT-01)': () => unsigned({ alg: 'None' }),
  'alg nOnE (T-JWT-01)': () => unsigned({ alg: 'nOnE' }),
  'alg empty (T-JWT-01)': () => unsigned({ alg: '' }),
  'alg missing (T-JWT-01)': () => unsigned({}),
  'alg none with a signature (T-JWT-01)': () => unsigned({ alg: 'none' }, 'AAAA'),
  'an empty signature (T-JWT-01)': () => unsigned({ alg: 'RS256' }),
  'no signature segment (T-JWT-01)': () => unsigned({ alg: 'none' }).replace(/\.$/, ''),
  'HS256 with the public key as PEM (T-JWT-02)': () => hmac(pem),
  'HS256 with the PEM without its final newline (T-JWT-02)': () => hmac(pem.trim()),
  'HS256 with the PEM with CRLF line ends (T-JWT-02)': () => hmac(pem.replaceAll('\n', '\r\n')),
  'HS256 with the PEM with a leading space (T-JWT-02)': () => hmac(` ${pem}`),
  'HS256 with the DER (T-JWT-02)': () => hmac(own.publicKey.export({ type: 'spki', format: 'der' })),
  'HS256 with the JWK (T-JWT-02)': () => hmac(JSON.stringify(own.publicKey.export({ format: 'jwk' }))),
  'HS256 labelled as RS256 (T-JWT-02)': () => hmac(pem, { alg: 'RS256' }),
  'an unknown kid (T-JWT-03)': () => signed({}, { kid: 'other' }),
  'no kid (T-JWT-03)': () => signed({}, { kid: undefined }),
  'a kid that is a path (T-JWT-03)': () => signed({}, { kid: '../../dev/null' }),
  'a kid that is SQL (T-JWT-03)': () => signed({}, { kid: "' or 1=1 --" }),
  'a kid that is not a string (T-JWT-03)': () => signedAnyhow({ kid: [kid] }),
  'a 1 MB kid (T-JWT-03)': () => signed({}, { kid: 'x'.repeat(1_000_000) }),
  'jku (T-JWT-04)': () => signed({}, { jku: 'https://evil.example/jwks' }, other.privateKey),
  'jwk (T-JWT-04)': () => signed({}, { jwk: other.publicKey.export({ format: 'jwk' }) }, other.privateKey),
  'x5u (T-JWT-04)': () => signed({}, { x5u: 'https://evil.example/cert' }, other.privateKey),
  'crit with an unknown name (T-JWT-05)': () => signedAnyhow({ crit: ['x'], x: 1 }),
  'an empty crit (T-JWT-05)': () => signedAnyhow({ crit: [] }),
  'b64 false (T-JWT-05)': () => signedAnyhow({ b64: false, crit: ['b64'] }),
  'a JSON serialization (T-JWT-05)': () => JSON.stringify({ payload: encoded(fields), signature: 'AAAA' }),
  'five segments, as in a JWE (T-JWT-05)': () => `${unsigned({ alg: 'RSA-OAEP', enc: 'A256GCM' }, 'AAAA')}.AAAA.AAAA`,
  'a nested token (T-JWT-05)': async () => signedText(JSON.stringify(await signed()), { cty: 'JWT' }),
  'a signature with a different key (T-JWT-06)': () => signed({}, {}, other.privateKey),
  'a different algorithm with the same key (T-JWT-06)': () => signed({}, { alg: 'PS256' }),
  'RS512 (T-JWT-06)': () => signed({}, { alg: 'RS512' }),
  'an ID token (T-JWT-08)': () => signed({ aud: 'alpha', scope: undefined }),
  'no typ (T-JWT-08)': () => signed({}, { typ: undefined }),
  'a different typ (T-JWT-08)': () => signed({}, { typ: 'logout+jwt' }),
  'a different issuer (T-JWT-08)': () => signed({ iss: 'https://evil.example' }),
  'an issuer that starts with ours (T-JWT-08)': () => signed({ iss: `${issuer}/` }),
  'issuers as an array (T-JWT-08)': () => signed({ iss: [issuer] }),
  'no issuer (T-JWT-08)': () => signed({ iss: undefined }),
  'a different audience (T-JWT-08)': () => signed({ aud: 'https://other.example' }),
  'audiences as an array (T-JWT-08)': () => signed({ aud: [issuer, 'https://other.example'] }),
  'no audience (T-JWT-08)': () => signed({ aud: undefined }),
  'scope as an array (T-JWT-08)': () => signed({ scope: ['reports:read'] }),
  'no scope (T-JWT-08)': () => signed({ scope: undefined }),
  'sub as a number (T-JWT-08)': () => signed({ sub: 1 }),
  'no client_id (T-JWT-08)': () => signed({ client_id: undefined }),
  'no jti (T-JWT-08)': () => signed({ jti: undefined }),
  'an unknown client (T-JWT-08)': () => signed({ client_id: 'nobody' }),
  'a duplicate claim (T-JWT-08)': () => signedText(JSON.stringify(fields).replace('{', '{"scope":"admin",')),
  'no exp (T-JWT-09)': () => signed({ exp: undefined }),
  'exp as a string (T-JWT-09)': () => signed({ exp: `${iat + 900}` }),
  'exp with a fraction (T-JWT-09)': () => signed({ exp: iat + 900.5 }),
  'exp of 1e400 (T-JWT-09)': () => signedText(JSON.stringify(fields).replace(`"exp":${iat + 900}`, '"exp":1e400')),
  'nbf in the future (T-JWT-09)': () => signed({ nbf: iat + 31 }),
  'iat in the future (T-JWT-09)': () => signed({ iat: iat + 31 }),
  'no iat (T-JWT-09)': () => signed({ iat: undefined }),
  'a changed payload': async () => {
    const [header, , signature] = (await signed()).split('.')
    return `${header}.${encoded({ ...fields, scope: 'admin' })}.${signature}`
  },
  'a changed signature': async () => (await signed()).replace(/[^.]{8}$/, 'AAAAAAAA'),
  'a payload that is not an object': () => signedText('[]'),
  'a payload that is not JSON': () => signedText('{'),
  'only two dots': () => '..',
  'an opaque string': () => 'opaque',
  'an empty string': () => '',
}
