/**
 * How an endpoint's last call ended: 0 = success, 1 = no call yet or since a reset, 2 = failure. Lower ranks are served
 * first.
 */
export type Rank = 0 | 1 | 2

export const ranks = [0, 1, 2] as const satisfies readonly Rank[]

/**
 * The fraction of the slots that calls to endpoints of these ranks may occupy together. Failing endpoints leave half of
 * the slots free; failing and untried endpoints together leave a quarter, so that hanging calls never take the last
 * slots from endpoints that respond. The last two pools keep a few slots for untried and failing endpoints while many
 * endpoints respond.
 */
const pools: readonly { ranks: readonly Rank[]; part: number }[] = [
  { ranks: [0, 1, 2], part: 1 },
  { ranks: [1, 2], part: 3 / 4 },
  { ranks: [2], part: 1 / 2 },
  { ranks: [0, 1], part: 15 / 16 },
  { ranks: [0], part: 7 / 8 },
]

const poolsOf = ranks.map((rank) => pools.flatMap((pool, at) => (pool.ranks.includes(rank) ? [at] : [])))

/** A call in flight: the owner whose share it uses, and the rank of its endpoint. */
export interface Held {
  owner: string
  rank: Rank
}

/** A process's sending slots: free slots by pool, and occupied slots by owner and pool. */
export interface Slots {
  free: readonly number[]
  held: ReadonlyMap<string, readonly number[]>
}

/** Returns the state of a process's `size` slots while these calls are in flight. */
export function slotsOf(size: number, calls: Iterable<Held>): Slots {
  const free = pools.map(({ part }) => Math.max(1, Math.floor(size * part)))
  const held = new Map<string, number[]>()
  for (const { owner, rank } of calls) {
    const counts = held.get(owner) ?? pools.map(() => 0)
    held.set(owner, counts)
    for (const pool of poolsOf[rank] ?? []) {
      free[pool] = (free[pool] ?? 0) - 1
      counts[pool] = (counts[pool] ?? 0) + 1
    }
  }
  return { free, held }
}

/** Returns how many calls to endpoints of this rank could start if each had a different owner with no other calls. */
export const roomFor = ({ free }: Slots, rank: Rank): number =>
  Math.max(0, Math.min(...(poolsOf[rank] ?? []).map((pool) => free[pool] ?? 0)))

/**
 * Returns whether an owner may take a slot. There must be more free slots than slots that the owner occupies, so that
 * other owners always find a free one.
 */
export function mayTake({ free, held }: Slots, owner: string, rank: Rank): boolean {
  const counts = held.get(owner)
  return (poolsOf[rank] ?? []).every((pool) => (counts?.[pool] ?? 0) < (free[pool] ?? 0))
}

/** Returns the owners that have used up their share for this rank. */
export const withoutShare = (slots: Slots, rank: Rank): string[] =>
  [...slots.held.keys()].filter((owner) => !mayTake(slots, owner, rank))

/**
 * Distributes slots by max-min fairness: the next free slot always goes to the owner with the fewest slots, until every
 * owner has as many as it can use or occupies as many slots as are free. Returns the number of slots that each owner
 * gets, and the slots left.
 */
export function share(slots: Slots, rank: Rank, wanted: ReadonlyMap<string, number>) {
  const granted = new Map<string, number>()
  const left = { free: [...slots.free], held: new Map(slots.held) }
  const total = (owner: string) => left.held.get(owner)?.[0] ?? 0
  const byCount = Map.groupBy([...wanted.keys()], total)
  for (let count = 0; byCount.size > 0; count++) {
    const again = byCount.get(count + 1) ?? []
    for (const owner of byCount.get(count) ?? []) {
      const given = granted.get(owner) ?? 0
      // Once an owner is refused a slot, it stays refused, because its own slots stay the same and the free slots only
      // become fewer.
      if (given >= (wanted.get(owner) ?? 0) || !mayTake(left, owner, rank)) continue
      take(left, owner, rank)
      granted.set(owner, given + 1)
      again.push(owner)
    }
    byCount.delete(count)
    if (again.length > 0) byCount.set(count + 1, again)
  }
  return { granted, left: left as Slots }
}

function take(
  { free, held }: { free: number[]; held: Map<string, readonly number[]> },
  owner: string,
  rank: Rank,
): void {
  const counts = [...(held.get(owner) ?? pools.map(() => 0))]
  for (const pool of poolsOf[rank] ?? []) {
    free[pool] = (free[pool] ?? 0) - 1
    counts[pool] = (counts[pool] ?? 0) + 1
  }
  held.set(owner, counts)
}
