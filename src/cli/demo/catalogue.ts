import { domains, familyNames, givenNames, streets, towns } from './names.ts'
import { genres, slots } from './titles.ts'
import { departments, makers, wordLines } from './words.ts'

/**
 * The sample data, in the format that POST accepts for each resource. Product names, book titles and e-mail addresses
 * are unique.
 */
export interface Catalogue {
  products: { name: string; price: number }[]
  books: { title: string; author: string; genre: string }[]
  users: { name: string; email: string; address: string; phone: string }[]
}

/**
 * The seed for the sample data that `plinth demo` loads; must not change, because the data must be the same in every
 * release.
 */
export const demoSeed = 20_261_121

const counts = { products: 2_000, books: 500, users: 500 }
const authorCount = 140

type Random = () => number

/** Generates 2,000 products, 500 books and 500 users; the same seed always gives the same data. */
export function catalogue(seed = demoSeed): Catalogue {
  const random = generator(seed)
  const authors = distinct(authorCount, ({ author }) => author, writer(random))
  return {
    products: distinct(counts.products, ({ name }) => name, product(random)),
    books: distinct(counts.books, ({ title }) => title, book(random, authors)),
    users: distinct(counts.users, ({ email }) => email, user(random)),
  }
}

/** Creates a Mulberry32 generator: it is small and returns the same numbers, in [0, 1), on every machine. */
export function generator(seed: number): Random {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
const between = (random: Random, min: number, max: number) => min + Math.floor(random() * (max - min + 1))

/** Draws random items until `count` of them have distinct keys. */
function distinct<T>(count: number, keyOf: (item: T) => string, draw: () => T): T[] {
  const found = new Map<string, T>()
  while (found.size < count) {
    const item = draw()
    if (!found.has(keyOf(item))) found.set(keyOf(item), item)
  }
  return [...found.values()]
}

const product = (random: Random) => () => {
  const { things, finishes } = pick(random, departments)
  const [thing, usualPrice] = pick(random, things)
  const [line, share] = pick(random, wordLines)
  const name = `${pick(random, makers)} ${line} ${thing}, ${pick(random, finishes)}`
  return { name, price: priced(random, usualPrice * share) }
}

const endings = [0.99, 0.99, 0.95, 0.95, 0.9, 0.5, 0.49, 0]

/** Draws a price near `usual` with typical cents, rounded to the two decimals that the schema allows. */
function priced(random: Random, usual: number): number {
  const whole = Math.max(Math.floor(usual * (0.85 + 0.3 * random())), 1)
  return Number((whole + pick(random, endings)).toFixed(2))
}

const person = (random: Random) => ({ given: pick(random, givenNames), family: pick(random, familyNames) })

/** Draws an author with a single genre, so that all books by the same author have the same genre. */
const writer = (random: Random) => () => {
  const { given, family } = person(random)
  const initial = random() < 0.2 ? ` ${pick(random, [...'ABCDEGHJKLMRST'])}.` : ''
  return { author: `${given}${initial} ${family}`, genre: pick(random, genres) }
}

const book = (random: Random, authors: ReturnType<ReturnType<typeof writer>>[]) => () => {
  const { author, genre } = pick(random, authors)
  const [name, patterns] = genre
  const title = pick(random, patterns).replace(/\{(\w+)\}/g, (_, slot) => pick(random, slots[slot] ?? []))
  return { title: title.replace(/^./u, (first) => first.toUpperCase()), author, genre: name }
}

const user = (random: Random) => () => {
  const { given, family } = person(random)
  const number = random() < 0.4 ? String(between(random, 1, 99)) : ''
  const { town, phone } = pick(random, towns)
  return {
    name: `${given} ${family}`,
    email: `${plain(given)}.${plain(family)}${number}@${pick(random, domains)}`,
    address: `${between(random, 1, 199)} ${pick(random, streets)}, ${town}`,
    phone: phone + between(random, 100, 199),
  }
}

/** Converts a name for use in an e-mail address: ASCII letters only, in lower case. */
const plain = (name: string) =>
  name
    .normalize('NFKD')
    .replace(/[^A-Za-z]/g, '')
    .toLowerCase()
