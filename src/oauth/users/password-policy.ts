import type { ZxcvbnFactory } from '@zxcvbn-ts/core'
import { caseFold } from '../../storage/rows/page-query.ts'

const minCharacters = 12
const maxBytes = 256

/** As much of a password as is weighed; that takes longer with its square. */
const weighedCharacters = 32
/** 10^8 guesses: less is found by whoever can try unhindered (zxcvbn's own scale). */
const minScore = 3

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

/** The same list, longest first, as the greedy match of `isOnlyCommonWords` needs it. */
const byLength = [...commonWords].sort((one, other) => other.length - one.length)

/** What the password's owner is called: such words make it easy to guess. */
export interface Owner {
  name: string
  email: string
}

/**
 * Why a password cannot be used, in words for its owner; undefined when it can. Length counts, kinds of characters do
 * not (NIST SP 800-63B §3.1.1). Refused is what can be guessed: words of the owner and of everybody by rule, and by the
 * estimate of zxcvbn what its list of 49,000 leaked passwords, runs of keyboards, dates and repetitions make up.
 */
export async function passwordMistake(password: string, { name, email }: Owner): Promise<string | undefined> {
  if ([...password].length < minCharacters) return `must have at least ${minCharacters} characters`
  if (isTooLong(password)) return `must have at most ${maxBytes} bytes`
  const own = [name, email, ...email.split('@'), ...name.split(/\s+/)]
  if (isWorded(password, own) || (await isWeak(password, own))) {
    return 'is easy to guess; several unrelated words make a good one'
  }
  return undefined
}

/** Whether a text is longer than any password; told before anything costly is done with it. */
export function isTooLong(password: string): boolean {
  return Buffer.byteLength(password) > maxBytes
}

let estimator: Promise<ZxcvbnFactory> | undefined

/** Loaded where the first password is set: a service that sets none does not carry the list in memory. */
async function loadEstimator(): Promise<ZxcvbnFactory> {
  const [{ ZxcvbnFactory }, { adjacencyGraphs: graphs, dictionary }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ])
  return new ZxcvbnFactory({ graphs, dictionary })
}

/** Whether few guesses lead there. Its beginning says enough: more characters make no password weaker. */
async function isWeak(password: string, own: readonly string[]): Promise<boolean> {
  estimator ??= loadEstimator()
  const beginning = [...password].slice(0, weighedCharacters).join('')
  return (await estimator).check(beginning, [...own]).score < minScore
}

/** Words that everybody knows, or the owner's, and little besides. */
function isWorded(password: string, own: readonly string[]): boolean {
  const text = caseFold(password)
  const ownWords = own.map(caseFold).filter((word) => word.length > 2)
  // A few digits and signs do not save a word; look-alike signs inside one are the letters they look like.
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
