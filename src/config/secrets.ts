import { named, optional, text } from './setting.ts'

const keyPattern = /^([0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?)$/
const shortest = 32

/** Secrets of the service. */
export const secretSettings = {
  bootstrapClientSecret: named(
    'PLINTH_BOOTSTRAP_CLIENT_SECRET',
    optional(text('', 'Its secret', /^[\x20-\x7e]{1,256}$/, '1 to 256 printable ASCII characters')),
  ),
  masterKey: named(
    'PLINTH_MASTER_KEY',
    optional(
      text('', '32 bytes as hex or base64; made on first run', keyPattern, '32 bytes as 64 hex digits or base64'),
    ),
  ),
  jwtSharedSecret: named(
    'PLINTH_JWT_SHARED_SECRET',
    optional(
      text(
        '',
        'Secret of HS256 access tokens made elsewhere; none are accepted without it',
        /^.{32,1024}$/,
        '32 to 1024 bytes',
      ),
    ),
  ),
}

type Secrets = { [Key in keyof typeof secretSettings]: string | null }

/** The names of the secrets that are short or easy to guess. */
export const guessableSecrets = (secrets: Secrets): string[] =>
  Object.entries(secretSettings).flatMap(([key, { name }]) => {
    const value = secrets[key as keyof Secrets]
    return value !== null && (value.length < shortest || isObvious(value)) ? [name] : []
  })

const ofSamples = /secret|passw|change.?me|example|sample/i
/** Up to 16 characters, repeated. */
const periodic = /^(.{1,16})\1+.{0,15}$/s

function isObvious(value: string): boolean {
  const codes = [...value].map((sign) => sign.codePointAt(0) as number)
  const steps = codes.filter((code, at) => at > 0 && Math.abs(code - (codes[at - 1] as number)) <= 1)
  // In random hex digits, every fifth is adjacent to the one before it.
  return ofSamples.test(value) || periodic.test(value) || steps.length > codes.length * 0.75
}
