import {
  type Config,
  type Environment,
  type Groups,
  isSecret,
  printable,
  profileSetting,
  settingGroups,
} from './config.ts'
import type { Named } from './setting.ts'

/** A setting with its effective value; secrets are hidden. */
export interface DescribedSetting {
  name: string
  /** The component that uses the setting, such as `webhooks`. */
  group: string
  about: string
  value: string
  /** The default value; null if the setting may stay unset. */
  fallback: string | null
  isSet: boolean
  isSecret: boolean
}

/** Returns each setting with its effective value; secrets are hidden. */
export function describeSettings(config: Config, env: Environment): DescribedSetting[] {
  const groups = Object.entries(settingGroups(config)).map(([group, rows]) => [group, Object.values(rows)] as const)
  return [['service', [profileSetting(env)]] as const, ...groups].flatMap(([group, rows]) =>
    rows.map(({ name, fallback, about }: Named<unknown>) => {
      const text = env[name]?.trim()
      const value = text ? printable(name, text) : (fallback ?? '(unset)')
      return { name, group, about, value, fallback, isSet: Boolean(text), isSecret: isSecret(name) }
    }),
  )
}

/** Returns the name and value of every secret that is set, except the headers for traces. */
export const secretsOf = (config: Config): [name: string, value: string][] =>
  Object.entries(settingGroups(config)).flatMap(([group, settings]) =>
    Object.entries(settings).flatMap(([key, { name }]): [string, string][] => {
      const value: unknown = config[group as keyof Groups][key as never]
      return isSecret(name) && typeof value === 'string' ? [[name, value]] : []
    }),
  )

/**
 * Returns every text that must not be logged: secrets, including the values of the headers for traces, and the
 * passwords in URLs, as written and decoded.
 */
export function confidentialTexts(config: Config): string[] {
  const values = Object.keys(settingGroups(config)).flatMap((group) => Object.values(config[group as keyof Groups]))
  const passwords = values.flatMap((value) => {
    const password = typeof value === 'string' ? URL.parse(value)?.password : undefined
    return password ? [password, decodeURIComponent(password)] : []
  })
  const { headers } = config.tracing
  return [...secretsOf(config).map(([, value]) => value), ...passwords, ...Object.values(headers ?? {})]
}
