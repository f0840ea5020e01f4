/** The preferences this service supports (RFC 7240 §4; `count` is an extension). */
export interface Preferences {
  /** The time that the client is willing to wait, in seconds; capped at 30. */
  wait?: number
  return?: 'minimal' | 'representation'
  handling?: 'strict' | 'lenient'
  count?: 'exact'
}

const maxWaitSeconds = 30

/** A list element; an unclosed quote extends to the end of the header. */
const element = /(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const word = /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[^"\\]|\\.)*")?/

/** Returns the lower-case name and the value of an element; undefined if the element is malformed. */
function preferenceOf(text: string): [name: string, value: string] | undefined {
  const end = text.search(/[=;]/)
  const name = (end < 0 ? text : text.slice(0, end)).trim().toLowerCase()
  if (!token.test(name)) return undefined
  if (text[end] !== '=') return [name, '']
  const rest = text.slice(end + 1).trim()
  const [value = ''] = word.exec(rest) ?? []
  return /^\s*(;|$)/.test(rest.slice(value.length)) ? [name, unquoted(value)] : undefined
}

const unquoted = (value: string) => (value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value)

/**
 * Parses a Prefer header (RFC 7240 §2). If a preference is repeated, the first occurrence counts. Ignores unknown and
 * malformed preferences, invalid values and all parameters; no supported preference takes parameters.
 */
export function parsePrefer(header: string): Preferences {
  const stated = new Map<string, string>()
  for (const [text] of header.matchAll(element)) {
    const [name, value = ''] = preferenceOf(text) ?? []
    if (name !== undefined && !stated.has(name)) stated.set(name, value)
  }
  const preferences: Preferences = {}
  const wait = stated.get('wait') ?? ''
  if (/^\d+$/.test(wait)) preferences.wait = Math.min(Number(wait), maxWaitSeconds)
  preferences.return = oneOf(stated.get('return'), ['minimal', 'representation'])
  preferences.handling = oneOf(stated.get('handling'), ['strict', 'lenient'])
  preferences.count = oneOf(stated.get('count'), ['exact'])
  return preferences
}

/** Finds a word regardless of case, because literal strings in ABNF are case-insensitive (RFC 5234 §2.3). */
const oneOf = <W extends string>(value: string | undefined, words: readonly W[]): W | undefined =>
  words.find((known) => known === value?.toLowerCase())
