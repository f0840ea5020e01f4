import { url as inspectorUrl } from 'node:inspector'
import { ConfigError } from '../startup-errors.ts'
import type { Config } from './config.ts'
import { secretsOf } from './describe.ts'

/** In production, throws if Node.js runs without a safeguard that the service relies on. */
export function refuseUnsafeProcess({ production }: Config): void {
  const reasons = unsafeOptions(process)
  if (production && reasons.length > 0) throw new ConfigError(`${reasons.join('\n')}\nRefused in production`)
}

/** Returns a description of each option that removes a safeguard of Node.js. */
export function unsafeOptions({ env, execArgv }: Pick<NodeJS.Process, 'env' | 'execArgv'>): string[] {
  const { NODE_OPTIONS = '', NODE_TLS_REJECT_UNAUTHORIZED } = env
  // Node.js accepts underscores instead of hyphens in option names.
  const options = [...execArgv, ...NODE_OPTIONS.split(/\s+/)].map((option) => option.replaceAll('_', '-'))
  const rules: [unsafe: boolean, reason: string][] = [
    [
      NODE_TLS_REJECT_UNAUTHORIZED === '0',
      'NODE_TLS_REJECT_UNAUTHORIZED=0 accepts any certificate of the servers this service calls',
    ],
    [inspectorUrl() !== undefined, 'node --inspect lets anyone who can reach its port run code'],
    [options.includes('--insecure-http-parser'), 'node --insecure-http-parser allows request smuggling'],
  ]
  return rules.filter(([unsafe]) => unsafe).map(([, reason]) => reason)
}

/** Returns the names of the secrets that are short or easy to guess. */
export const guessableSecrets = (config: Config): string[] =>
  secretsOf(config).flatMap(([name, value]) => (isGuessable(value) ? [name] : []))

const minLength = 32
const ofSamples = /secret|passw|change.?me|example|sample/i
/** Matches text that only repeats a sequence of up to 16 characters. */
const periodic = /^(.{1,16})\1+.{0,15}$/s

function isGuessable(value: string): boolean {
  const codes = [...value].map((sign) => sign.codePointAt(0) as number)
  const steps = codes.filter((code, at) => at > 0 && Math.abs(code - (codes[at - 1] as number)) <= 1)
  // Detects sequences such as `abcd1234`: among random hex digits, only about one in six differs from its predecessor
  // by at most 1.
  return value.length < minLength || ofSamples.test(value) || periodic.test(value) || steps.length > codes.length * 0.75
}
