import { type Config, describeSettings } from '../config/config.ts'

/** Every setting: name, value in force, what it is for. Secrets are not shown. */
export function settingsTable(config: Config, env: Readonly<Record<string, string | undefined>>): string {
  const rows = describeSettings(config, env)
  const width = Math.max(...rows.map(({ name }) => name.length))
  return rows
    .map(({ name, value, about }) => `${name.padEnd(width)}  ${about}\n${' '.repeat(width)}  = ${value}\n`)
    .join('')
}
