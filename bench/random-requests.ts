import { nameOf, priceOf } from './fill.ts'
import { requestText } from './target.ts'

/** More rows than a heap keeps young, as many as clients read again and again. */
export const known = 10_000
/** Every so many-th request of the mixed row is a write. */
export const writeEach = 20

type Headers = Record<string, string>

/** So many ids from all over the table, each once, in an order without a pattern that is the same in every run. */
function shuffledIds(rows: number): number[] {
  const count = Math.min(known, rows)
  const ids = Array.from({ length: count }, (_, at) => Math.floor((rows * (at + 1)) / count))
  let seed = 1
  for (let at = count - 1; at > 0; at--) {
    // The generator of Park and Miller: its products stay below 2^53.
    seed = (seed * 48_271) % 2_147_483_647
    const other = seed % (at + 1)
    const id = ids[at] as number
    ids[at] = ids[other] as number
    ids[other] = id
  }
  return ids
}

/** Reads of all of them. */
export const randomReads = (headers: Headers, rows: number) =>
  shuffledIds(rows).map((id) => requestText('GET', `/products/${id}`, headers))

/** The same where one in `writeEach` replaces what it would read. */
export function randomReadsAndWrites(headers: Headers, rows: number): string[] {
  const json = { ...headers, 'content-type': 'application/json' }
  return shuffledIds(rows).map((id, at) => {
    if (at % writeEach > 0) return requestText('GET', `/products/${id}`, headers)
    return requestText('PUT', `/products/${id}`, json, JSON.stringify({ name: nameOf(id), price: priceOf(at) }))
  })
}
