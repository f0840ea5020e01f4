import { Problem } from './problems/problem.ts'

const maxLevels = 32
const defaultMaxMembers = 1_000

const invalid = (detail: string, cause?: unknown) => new Problem('INVALID_INPUT', detail, { cause })

/**
 * Parses JSON. Throws INVALID_INPUT for invalid JSON and for text that parsers interpret differently (RFC 7493 §2):
 * duplicate names in an object, and numbers that a double cannot represent. Also throws for names that could modify
 * prototypes, and for more than 32 levels or `maxMembers` members; these limits are checked before any value is built.
 * Skips a leading byte order mark (RFC 8259 §8.1).
 */
export function readJson(text: string, maxMembers = defaultMaxMembers): unknown {
  const start = text.charCodeAt(0) === 0xfeff ? 1 : 0
  const { members, hasLongText } = scan(text, start, maxMembers)
  let value: unknown
  try {
    value = JSON.parse(start === 0 ? text : text.slice(start), hasLongText ? noteLongNumber : undefined)
  } catch (cause) {
    throw invalid(text.trim() === '' ? 'The body is empty; expected JSON' : 'The body is not valid JSON', cause)
  }
  // JSON.parse keeps only the last of several members with the same name, even if their names are escaped differently,
  // so duplicates reduce the number of members.
  if (members > 0 && membersOf(value) < members) throw invalid('The body has an object with duplicate member names')
  return value
}

const longNumbers = new WeakMap<object, Set<string>>()

/**
 * Returns true if a member of a parsed body was written as a number with more than 15 significant digits; the parsed
 * value may have lost some of the digits.
 */
export const isLongNumber = (holder: object, name: string): boolean => longNumbers.get(holder)?.has(name) ?? false

/** A JSON.parse reviver that records long numbers by holder and name without changing any value. */
function noteLongNumber(this: object, name: string, value: unknown, context?: { source: string }): unknown {
  if (typeof value === 'number' && significantDigits(context?.source ?? '') > maxExactDigits) {
    longNumbers.set(this, (longNumbers.get(this) ?? new Set()).add(name))
  }
  return value
}

const [quote, backslash, colon] = [0x22, 0x5c, 0x3a]
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]
const [minus, zero, nine] = [0x2d, 0x30, 0x39]

/** Scans the text once: checks nesting depth and numbers, counts the members of all objects, and looks for long numbers. */
function scan(text: string, start: number, maxMembers: number): { members: number; hasLongText: boolean } {
  let depth = 0
  let members = 0
  let hasLongText = false
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) at = endOfString(text, at + 1)
    else if (code === colon) members++
    else if (code === openList || code === openObject) depth++
    else if (code === closeList || code === closeObject) depth--
    else if ((code >= zero && code <= nine) || code === minus) {
      const end = endOfNumber(text, at)
      if (end - at > maxExactDigits) hasLongText = true
      at = end - 1
    }
    if (depth > maxLevels) throw invalid(`The body is nested deeper than ${maxLevels} levels`)
    if (members > maxMembers) throw invalid(`The body has more than ${maxMembers} members`)
  }
  return { members, hasLongText }
}

/**
 * Returns the index of the closing quote of a string; if the string is not closed, the length of the text (JSON.parse then
 * rejects it).
 */
function endOfString(text: string, start: number): number {
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) return at
    if (code === backslash) at++
  }
  return text.length
}

const maxExactDigits = 15

/** Returns the index after a number. Throws if a double cannot represent the number. */
function endOfNumber(text: string, start: number): number {
  let end = start + 1
  let hasExponent = false
  for (; end < text.length; end++) {
    const code = text.charCodeAt(end) | 0x20
    if (code === 0x65) hasExponent = true
    else if (!isNumeric(text.charCodeAt(end))) break
  }
  if ((hasExponent || end - start > maxExactDigits) && !isRepresentable(text.slice(start, end))) {
    throw invalid('The body has a number that exceeds the precision or range of a double')
  }
  return end
}

/** Returns true for a digit, `+`, `-` or `.`. */
const isNumeric = (code: number) => (code >= zero && code <= nine) || code === minus || code === 0x2b || code === 0x2e

const digitsOfDouble = 17
/**
 * The maximum length of a number. Serializers never write a double with more characters, and the limit also bounds the
 * input to the regular expressions below.
 */
const maxCharacters = 64

/**
 * Returns whether a double can represent a number. An integer must be a safe integer; any other number may have at most
 * 17 significant digits, because 17 identify a double.
 */
function isRepresentable(number: string): boolean {
  if (number.length > maxCharacters) return false
  const value = Number(number)
  // The text is not a number; JSON.parse reports a clearer error.
  if (Number.isNaN(value)) return true
  const digits = significantDigits(number)
  if (!Number.isFinite(value) || (value === 0 && digits > 0)) return false
  return /^-?\d+$/.test(number) ? Number.isSafeInteger(value) : digits <= digitsOfDouble
}

const significantDigits = (number: string): number =>
  number.replace(/e.*$/i, '').replace(/[-.]/g, '').replace(/^0+/, '').replace(/0+$/, '').length

/** Counts the members of a value at all depths. Throws for names that could modify prototypes. */
function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let members = 0
  if (Array.isArray(value)) {
    for (const item of value) members += membersOf(item)
    return members
  }
  for (const name in value) {
    const member = (value as Record<string, unknown>)[name]
    if (name === '__proto__' || (name === 'constructor' && hasPrototype(member))) {
      throw invalid('The body has a member name that is not allowed: __proto__ or constructor.prototype')
    }
    members += 1 + membersOf(member)
  }
  return members
}

const hasPrototype = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
