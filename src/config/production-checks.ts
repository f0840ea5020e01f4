import { url as inspectorUrl } from 'node:inspector'
import { ConfigError } from '../startup-errors.ts'
import type { Config } from './config.ts'

/** Throws in production if Node.js runs without a safeguard that the service relies on. */
export function refuseUnsafeProcess({ production }: Config): void {
  const { NODE_OPTIONS = '', NODE_TLS_REJECT_UNAUTHORIZED } = process.env
  // Node.js accepts _ for - in option names.
  const options = [...process.execArgv, ...NODE_OPTIONS.split(/\s+/)].map((option) => option.replaceAll('_', '-'))
  const rules: [broken: boolean, mistake: string][] = [
    [
      NODE_TLS_REJECT_UNAUTHORIZED === '0',
      'NODE_TLS_REJECT_UNAUTHORIZED=0 lets anybody pose as a server that is called',
    ],
    [inspectorUrl() !== undefined, 'node --inspect lets anyone who reaches its port run code'],
    [options.includes('--insecure-http-parser'), 'node --insecure-http-parser takes requests that read in two ways'],
  ]
  const mistakes = rules.filter(([broken]) => broken).map(([, mistake]) => mistake)
  if (production && mistakes.length > 0) throw new ConfigError(`${mistakes.join('\n')}\nNot in production`)
}
