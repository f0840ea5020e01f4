import { type WatchOptions, watchRows } from '../../storage/row-changes/watch.ts'

/** Ensures that a resource's changes are logged while this process has streams for it. */
export interface Watches {
  /** Starts or renews a watch. Returns the `seq` from which the log is complete for the resource. */
  ensure: (noun: string) => Promise<number>
  /** Renews the watches of these resources and drops all others. */
  renew: (nouns: readonly string[]) => Promise<void>
}

export interface WatchesOptions extends WatchOptions {
  /** Called when the log has a gap for a resource, because its watch was not renewed in time. */
  onGap: (noun: string) => Promise<void>
}

/** Watches younger than this are not renewed. The interval can be long, because a watch outlasts the history. */
const renewEveryMs = 30_000

export function watchesOf({ onGap, ...options }: WatchesOptions): Watches {
  const watched = new Map<string, { since: number; renewedAtMs: number }>()
  const ensure = async (noun: string) => {
    const known = watched.get(noun)
    const renewedAtMs = options.now()
    const ageMs = renewedAtMs - (known?.renewedAtMs ?? 0)
    if (known && ageMs >= 0 && ageMs < renewEveryMs) return known.since
    const since = await watchRows(options, noun)
    watched.set(noun, { since, renewedAtMs })
    if (known && known.since !== since) await onGap(noun)
    return since
  }
  return {
    ensure,
    renew: async (nouns) => {
      for (const noun of watched.keys()) if (!nouns.includes(noun)) watched.delete(noun)
      for (const noun of nouns) await ensure(noun)
    },
  }
}
