import type { ResponseCounts } from '../http/server/access-log.ts'

/** Responses by key, busiest first, and the sum of all other keys. */
export interface Busiest {
  keys: [key: string, ...counts: ResponseCounts][]
  others: ResponseCounts
}

/** Counts responses by key and class, for a limited number of keys. */
export interface BusiestKeys {
  /** Counts a response; `index` is the index of its class. */
  count: (key: string, index: 0 | 1 | 2 | 3) => void
  /** Adds the counts taken from another counter. */
  add: (taken: Busiest) => void
  /** Returns the counts and resets them; null if nothing was counted. */
  take: () => Busiest | null
}

export const totalResponses = ([succeeded, clientErrors, limited, serverErrors]: ResponseCounts): number =>
  succeeded + clientErrors + limited + serverErrors

export function addResponses(sum: ResponseCounts, counts: ResponseCounts): void {
  for (let at = 0; at < counts.length; at++) sum[at] = (sum[at] as number) + (counts[at] as number)
}

/**
 * Creates a counter for at most `max` keys that returns the `shown` busiest ones. If a new key arrives while the
 * counter is full, the less busy half of the keys is merged into `others`. Busy keys therefore keep their counts, and
 * the total is always exact. `fold` maps keys that are counted together to a single key; it is called only when the
 * counter is full or its counts are taken.
 */
export function busiestKeys(max: number, shown: number, fold?: (key: string) => string): BusiestKeys {
  let known = new Map<string, ResponseCounts>()
  let others: ResponseCounts = [0, 0, 0, 0]
  const keep = (size: number) => {
    if (fold !== undefined) known = folded(known, fold)
    const order = [...known].toSorted(([, one], [, other]) => totalResponses(other) - totalResponses(one))
    for (const [, counts] of order.slice(size)) addResponses(others, counts)
    known = new Map(order.slice(0, size))
  }
  const countsOf = (key: string): ResponseCounts => {
    const before = known.get(key)
    if (before !== undefined) return before
    if (known.size >= max) keep(max / 2)
    const counts: ResponseCounts = [0, 0, 0, 0]
    known.set(key, counts)
    return counts
  }
  return {
    count: (key, index) => {
      countsOf(key)[index]++
    },
    add: (taken) => {
      for (const [key, ...counts] of taken.keys) addResponses(countsOf(key), counts)
      addResponses(others, taken.others)
    },
    take: () => {
      keep(shown)
      const taken = { keys: [...known].map(([key, counts]): Busiest['keys'][number] => [key, ...counts]), others }
      known = new Map()
      others = [0, 0, 0, 0]
      return taken.keys.length === 0 && totalResponses(taken.others) === 0 ? null : taken
    },
  }
}

function folded(known: ReadonlyMap<string, ResponseCounts>, fold: (key: string) => string) {
  const result = new Map<string, ResponseCounts>()
  for (const [key, counts] of known) {
    const name = fold(key)
    const before = result.get(name)
    if (before === undefined) result.set(name, counts)
    else addResponses(before, counts)
  }
  return result
}
