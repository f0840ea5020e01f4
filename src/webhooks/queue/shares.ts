/** How an endpoint's last call ended: 0 successfully, 1 none was made yet, 2 it failed. Lower ranks are served first. */
export type Rank = 0 | 1 | 2

export const ranks = [0, 1, 2] as const satisfies readonly Rank[]

/**
 * Calls of these ranks have at most so much of the slots together. Endpoints that fail leave half of them free, and with
 * those that nothing is known of a quarter, so that calls that hang never take the last slots from endpoints that answer.
 * The two smallest parts keep the others from waiting for ever while many endpoints answer.
 */
const pools: readonly { ranks: readonly Rank[]; part: number }[] = [
  { ranks: [0, 1, 2], part: 1 },
  { ranks: [1, 2], part: 3 / 4 },
  { ranks: [2], part: 1 / 2 },
  { ranks: [0, 1], part: 15 / 16 },
  { ranks: [0], part: 7 / 8 },
]

const poolsOf = ranks.map((rank) => pools.flatMap((pool, at) => (pool.ranks.includes(rank) ? [at] : [])))

/** A call under way, and whose share it takes. */
export interface Held {
  owner: string
  rank: Rank
}

/** The sending slots of a process: by pool what is free, and by owner how many each holds. */
export interface Slots {
  free: readonly number[]
  held: ReadonlyMap<string, readonly number[]>
}

/** The slots that so many calls leave. */
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

/** How many calls of this rank could begin if they were of different owners that hold nothing. */
export const roomFor = ({ free }: Slots, rank: Rank): number =>
  Math.max(0, Math.min(...(poolsOf[rank] ?? []).map((pool) => free[pool] ?? 0)))

/** An owner takes a slot only where more are free than it holds: the others always find some. */
export function mayTake({ free, held }: Slots, owner: string, rank: Rank): boolean {
  const counts = held.get(owner)
  return (poolsOf[rank] ?? []).every((pool) => (counts?.[pool] ?? 0) < (free[pool] ?? 0))
}

/** The owners that may begin no call of this rank now although others may. */
export const withoutShare = (slots: Slots, rank: Rank): string[] =>
  [...slots.held.keys()].filter((owner) => !mayTake(slots, owner, rank))

/**
 * Shares free slots max-min: the next one always goes to the owner that holds the fewest, until everybody has what it wants
 * or holds as many as are free. Returns how many each gets, and the slots that are left.
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
      // What is refused once stays refused: fewer slots are free later, and the owner holds no less.
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
