import { fold } from '../db/fold.ts'

const leastCharacters = 12
const mostBytes = 256

/** What people build guessable passwords of: the words at the top of the lists of leaked ones. */
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
  three`.split(/\s+/)

const rows = [
  '1234567890',
  'abcdefghijklmnopqrstuvwxyz',
  'qwertyuiop',
  'asdfghjkl',
  'zxcvbnm',
  'qwertzuiop',
  'azertyuiop',
]
const runs = rows.flatMap((row) => [row, [...row].reverse().join('')]).map((row) => row + row)
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

/** The same list, longest first, as the greedy match of `isOnlyCommonWords` needs it. */
const longestFirst = [...commonWords].sort((one, other) => other.length - one.length)

/** What the password's owner is called: such words make it easy to guess. */
export interface Owner {
  name: string
  email: string
}

/**
 * Why a password cannot be used, in words for its owner; undefined when it can. Length counts, kinds of characters do
 * not (NIST SP 800-63B §3.1.1); what is on everybody's list in any of its spellings is refused by rule.
 */
export function passwordMistake(password: string, { name, email }: Owner): string | undefined {
  if ([...password].length < leastCharacters) return `must have at least ${leastCharacters} characters`
  if (isTooLong(password)) return `must have at most ${mostBytes} bytes`
  if (isGuessable(password, [name, email, ...email.split('@'), ...name.split(/\s+/)])) {
    return 'is easy to guess; several unrelated words make a good one'
  }
  return undefined
}

/** Whether a text is longer than any password; told before anything costly is done with it. */
export function isTooLong(password: string): boolean {
  return Buffer.byteLength(password) > mostBytes
}

function isGuessable(password: string, own: readonly string[]): boolean {
  const text = fold(password)
  const ownWords = own.map(fold).filter((word) => word.length > 2)
  // A few digits and signs do not save a word; look-alike signs inside one are the letters they look like.
  const core = text.replace(/^[^\p{L}]+|[^\p{L}]+$/gu, '')
  const spellings = [core, plain(core), plain(text)].map((spelling) => spelling.replace(/[^\p{L}]/gu, ''))
  const isWorded = spellings.some(
    (letters) => isOnlyCommonWords(letters, ownWords) && text.length - letters.length <= 8,
  )
  return isPeriodic(text) || isRun(text) || isWorded
}

const plain = (text: string) => [...text].map((sign) => lookalikes[sign] ?? sign).join('')

/** `aaaaaaaaaaaa`, `abcabcabcabc`: one to four characters over and over. */
const isPeriodic = (text: string) => /^(.{1,4})\1+.{0,3}$/su.test(text)

/** Neighbours on a keyboard or in the alphabet, in groups of four or more: `qwertyuiop12`, `abcd1234efgh`. */
function isRun(text: string): boolean {
  let rest = text.replace(/[^\p{L}\p{N}]/gu, '')
  while (rest.length > 0) {
    const length = longestRun(rest)
    if (length < Math.min(4, rest.length)) return false
    rest = rest.slice(length)
  }
  return true
}

function longestRun(text: string): number {
  let length = text.length
  while (length > 0 && !runs.some((row) => row.includes(text.slice(0, length)))) length--
  return length
}

function isOnlyCommonWords(letters: string, own: readonly string[]): boolean {
  let rest = letters
  for (const word of [...own.map((text) => text.replace(/[^\p{L}]/gu, '')), ...longestFirst]) {
    if (word.length > 2) rest = rest.replaceAll(word, ' ')
  }
  const left = rest.replaceAll(' ', '').length
  return left < letters.length && left < 4
}
