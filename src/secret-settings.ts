import { Expected, named, optional, type Setting, text } from './settings.ts'

const keyPattern = /^([0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?)$/

/** The secrets that the service is given. Production takes for one neither what is short nor what anybody would try. */
export const secretSettings = (production: boolean) => ({
  bootstrapClientSecret: secret(
    'PLINTH_BOOTSTRAP_CLIENT_SECRET',
    'Its secret',
    production ? /^[\x20-\x7e]{32,256}$/ : /^[\x20-\x7e]{1,256}$/,
    `${production ? 32 : 1} to 256 printable ASCII characters`,
    production,
  ),
  masterKey: secret(
    'PLINTH_MASTER_KEY',
    '32 bytes as hex or base64; made on first run',
    keyPattern,
    '32 bytes as 64 hex digits or base64',
    production,
  ),
  jwtSharedSecret: secret(
    'PLINTH_JWT_SHARED_SECRET',
    'Secret of HS256 access tokens made elsewhere; none are accepted without it',
    /^.{32,1024}$/,
    '32 to 1024 bytes',
    production,
  ),
})

function secret(name: string, about: string, pattern: RegExp, expected: string, production: boolean) {
  const setting = text('', about, pattern, expected)
  return named(name, optional(production ? unguessable(setting) : setting))
}

const unguessable = ({ parse, ...setting }: Setting<string>): Setting<string> => ({
  ...setting,
  parse: (given) => {
    const value = parse(given)
    if (isObvious(value)) throw new Expected('random text, such as `openssl rand -hex 32` prints')
    return value
  },
})

const ofSamples = /secret|passw|change.?me|example|sample/i
/** Up to 16 characters over and over. */
const periodic = /^(.{1,16})\1+.{0,15}$/s

function isObvious(value: string): boolean {
  const codes = [...value].map((sign) => sign.codePointAt(0) as number)
  const steps = codes.filter((code, at) => at > 0 && Math.abs(code - (codes[at - 1] as number)) <= 1)
  // Of random hex digits every fifth is the neighbour of the one before it.
  return ofSamples.test(value) || periodic.test(value) || steps.length > codes.length * 0.75
}
