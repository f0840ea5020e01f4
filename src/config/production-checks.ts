import { url as inspectorUrl } from 'node:inspector'
import { ConfigError } from '../startup-errors.ts'
import type { Config } from './config.ts'

/** Throws in production if Node.js runs without a safeguard that the service relies on. */
export function refuseUnsafeProcess({ production }: Config): void {
  const { NODE_OPTIONS = '', NODE_TLS_REJECT_UNAUTHORIZED } = process.env
  // Node.js accepts _ for - in option names.
  const options = [...process.execArgv, ...NODE_OPTIONS.split(/\s+/)].map((option) => option.replaceAll('_', '-'))
  const rules: [unsafe: boolean, reason: string][] = [
    [
      NODE_TLS_REJECT_UNAUTHORIZED === '0',
      'NODE_TLS_REJECT_UNAUTHORIZED=0 accepts any certificate of the servers this service calls',
    ],
    [inspectorUrl() !== undefined, 'node --inspect lets anyone who can reach its port run code'],
    [options.includes('--insecure-http-parser'), 'node --insecure-http-parser allows request smuggling'],
  ]
  const reasons = rules.filter(([unsafe]) => unsafe).map(([, reason]) => reason)
  if (production && reasons.length > 0) throw new ConfigError(`${reasons.join('\n')}\nRefused in production`)
}
