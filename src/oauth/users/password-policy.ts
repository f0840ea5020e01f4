import type { ZxcvbnFactory } from '@zxcvbn-ts/core'
import { caseFold } from '../../storage/rows/page-query.ts'

const minCharacters = 12
const maxBytes = 256

/** Only this many characters are scored, because the cost of scoring grows quadratically. */
const scoredCharacters = 32
/** The zxcvbn score for at least 10^8 guesses; weaker passwords do not withstand unthrottled guessing. */
const minScore = 3

/** Words that are frequent in passwords. */
const commonWords = `password passwort passwd pass admin administrator root user guest login welcome letmein access
  secret master super test testing demo default changeme change temp hello iloveyou love lovely baby angel princess
  sunshine summer winter spring autumn monday friday january october november december dragon monkey tiger lion eagle
  shadow killer ninja pokemon superman batman spiderman starwars football baseball basketball soccer hockey liverpool
  chelsea arsenal barcelona juventus yankees cowboys michael jordan jennifer jessica daniel thomas andrew charlie
  matthew joshua robert george maria anna computer internet google facebook samsung apple microsoft windows linux
  server company office security trustno whatever nothing freedom flower cheese cookie chocolate banana orange purple
  pepper ginger silver golden diamond mustang ferrari porsche mercedes corvette harley yamaha london berlin paris
  qwerty qwertz azerty asdf asdfgh zxcvbn zxcv qazwsx correct horse battery staple fuck jesus christ money lucky happy
  family forever friends please open sesame system manager service plinth the and you our your new old number one two
  three lord rings game thrones bundesliga ich liebe dich`.split(/\s+/)

const lookalikes: Record<string, string> = {
  '0': 'o',
  '1': 'i',
  '3': 'e',
  '4': 'a',
  '5': 's',
  '7': 't',
  '@': 'a',
  $: 's',
  '!': 'i',
}

/** `commonWords`, longest first, for the greedy match in `isOnlyCommonWords`. */
const byLength = [...commonWords].sort((one, other) => other.length - one.length)

/** The password's owner. A password that contains the owner's name or address is easy to guess. */
export interface PasswordOwner {
  name: string
  email: string
}

/**
 * Returns why a password is not acceptable, worded for its owner, or undefined if the password is acceptable. Limits
 * the length, but requires no character classes (NIST SP 800-63B §3.1.1). Rejects guessable passwords: a rule detects
 * common words and the owner's names; zxcvbn detects 49,000 leaked passwords, keyboard runs, dates and repetitions.
 */
export async function passwordError(password: string, { name, email }: PasswordOwner): Promise<string | undefined> {
  if ([...password].length < minCharacters) return `must have at least ${minCharacters} characters`
  if (isTooLong(password)) return `must have at most ${maxBytes} bytes`
  const own = [name, email, ...email.split('@'), ...name.split(/\s+/)]
  if (isMostlyCommonWords(password, own) || (await isWeak(password, own))) {
    return 'is easy to guess; use several unrelated words'
  }
  return undefined
}

/** Returns whether a password is longer than allowed; check this before any expensive work. */
export function isTooLong(password: string): boolean {
  return Buffer.byteLength(password) > maxBytes
}

let estimator: Promise<ZxcvbnFactory> | undefined

/** Loads the estimator when the first password is set, so that other processes do not hold its word lists in memory. */
async function loadEstimator(): Promise<ZxcvbnFactory> {
  const [{ ZxcvbnFactory }, { adjacencyGraphs: graphs, dictionary }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ])
  return new ZxcvbnFactory({ graphs, dictionary })
}

/**
 * Returns whether zxcvbn considers a password too easy to guess. Scores only the beginning, because more characters
 * never weaken a password.
 */
async function isWeak(password: string, own: readonly string[]): Promise<boolean> {
  estimator ??= loadEstimator()
  const beginning = [...password].slice(0, scoredCharacters).join('')
  return (await estimator).check(beginning, [...own]).score < minScore
}

/** Returns whether the password consists of common words or the owner's names and little else. */
function isMostlyCommonWords(password: string, own: readonly string[]): boolean {
  const text = caseFold(password)
  const ownWords = own.map(caseFold).filter((word) => word.length > 2)
  // A few digits and symbols do not strengthen a word; look-alike symbols within a word count as the letters they
  // resemble.
  const core = text.replace(/^[^\p{L}]+|[^\p{L}]+$/gu, '')
  const spellings = [core, plain(core), plain(text)].map((spelling) => spelling.replace(/[^\p{L}]/gu, ''))
  return spellings.some((letters) => isOnlyCommonWords(letters, ownWords) && text.length - letters.length <= 8)
}

const plain = (text: string) => [...text].map((sign) => lookalikes[sign] ?? sign).join('')

function isOnlyCommonWords(letters: string, own: readonly string[]): boolean {
  let rest = letters
  for (const word of [...own.map((text) => text.replace(/[^\p{L}]/gu, '')), ...byLength]) {
    if (word.length > 2) rest = rest.replaceAll(word, ' ')
  }
  const left = rest.replaceAll(' ', '').length
  return left < letters.length && left < 4
}
