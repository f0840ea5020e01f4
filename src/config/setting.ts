/** A setting: a parser that throws `Expected` on an invalid value, and a default. */
export interface Setting<T> {
  parse: (text: string) => T
  /** The default as text, which is parsed like any other value; null if the setting may stay unset. */
  fallback: string | null
  /** One line about the setting, for the table of settings. */
  about: string
}

/** Thrown by parsers; the message completes the sentence "expected …". */
export class Expected extends Error {}

/** Creates a setting with a default. */
export const setting = <T>(parse: (text: string) => T, fallback: string, about: string): Setting<T> => ({
  parse,
  fallback,
  about,
})

/** Adds the environment variable name to a setting. */
export const named = <T>(name: string, setting: Setting<T>): Named<T> => ({ name, ...setting })

export type Named<T> = Setting<T> & { name: string }

/** The types of the values in a settings group. */
export type SettingValues<Group> = { readonly [Key in keyof Group]: Group[Key] extends Setting<infer T> ? T : never }

/** The properties of the environment that determine the defaults. */
export interface Profile {
  production: boolean
  /** Whether the service speaks plain HTTP to clients on this machine, without a proxy. */
  plain: boolean
}

/** Removes a setting's default, so that the value is null when unset. */
export const optional = <T>({ parse, about }: Setting<T>): Setting<T | null> => ({ parse, fallback: null, about })

/** Defines a setting whose value is one of the given words. */
export const choice = <const W extends string>(words: readonly W[], fallback: W, about: string) =>
  setting(
    (text) => {
      if (!words.includes(text as W)) throw new Expected(`one of ${words.join(', ')}`)
      return text as W
    },
    fallback,
    about,
  )

export const flag = (fallback: boolean, about: string) =>
  setting((text) => choice(['true', 'false'], 'true', '').parse(text) === 'true', String(fallback), about)

export const integer = (min: number, max: number, fallback: number, about: string) =>
  setting(
    (text) => {
      const value = Number(text)
      if (!/^\d+$/.test(text) || value < min || value > max) {
        throw new Expected(`a whole number from ${min} to ${max}`)
      }
      return value
    },
    String(fallback),
    about,
  )

export const text = (fallback: string, about: string, pattern = /^.+$/s, expected = 'some text') =>
  setting(
    (value) => {
      if (!pattern.test(value)) throw new Expected(expected)
      return value
    },
    fallback,
    about,
  )

/** Splits a comma-separated value. */
export const split = (value: string) =>
  value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

export const words = <const W extends string>(allowed: readonly W[], fallback: string, about: string) =>
  setting(
    (value) => {
      const parts = split(value)
      if (parts.length === 0 || !parts.every((part) => allowed.includes(part as W))) {
        throw new Expected(`a comma-separated list of ${allowed.join(', ')}`)
      }
      return parts as W[]
    },
    fallback,
    about,
  )

const scopeToken = /^[\x21\x23-\x5b\x5d-\x7e]+$/

/** Defines a comma-separated list of scopes (RFC 6749 §3.3). The service checks at startup that these scopes exist. */
export const scopeList = (about: string) =>
  setting(
    (value) => {
      const parts = split(value)
      if (parts.length === 0 || !parts.every((part) => scopeToken.test(part))) {
        throw new Expected('scopes, comma-separated, such as users:read,reports:read')
      }
      return parts
    },
    '',
    about,
  )

const maxDelaySeconds = 7 * 86_400

/** Defines the delays in seconds before each attempt; the first delay is usually 0. */
export const delays = (fallback: string, about: string) =>
  setting(
    (value) => {
      const parts = split(value)
      const wrong = parts.find((part) => !/^\d+(\.\d+)?$/.test(part) || Number(part) > maxDelaySeconds)
      if (parts.length === 0 || parts.length > 30 || wrong !== undefined) {
        throw new Expected('1 to 30 delays in seconds, comma-separated, each at most seven days')
      }
      return parts.map(Number)
    },
    fallback,
    about,
  )
