import { type Config, describeSettings } from '../config/config.ts'

/** All settings: name, effective value, description. Secrets are hidden. */
export function settingsTable(config: Config, env: Readonly<Record<string, string | undefined>>): string {
  const rows = describeSettings(config, env)
  const width = Math.max(...rows.map(({ name }) => name.length))
  return rows
    .map(({ name, value, about }) => `${name.padEnd(width)}  ${about}\n${' '.repeat(width)}  = ${value}\n`)
    .join('')
}
