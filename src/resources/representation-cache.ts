import type { Representation } from '../http/fast-read.ts'
import type { Database } from '../storage/database.ts'

/** Representations of a table's rows as sent, by id. */
export interface Representations {
  /** The cached representation, if nothing was written since. */
  of: (id: number) => Representation | undefined
  /** Caches a representation made from data read in this event loop iteration. */
  keep: (id: number, made: Representation) => void
}

const charactersKept = 4_000_000

/** Caches about four megabytes until any write; disabled where the engine has no generation. */
export function representationCache({ generation }: Pick<Database, 'generation'>): Representations {
  const kept = new Map<number, Representation>()
  let characters = 0
  let current: number | null = null
  const clear = () => {
    kept.clear()
    characters = 0
  }
  return {
    of: (id) => {
      const now = generation()
      if (now !== current) clear()
      current = now
      return kept.get(id)
    },
    keep: (id, made) => {
      if (current === null) return
      characters += made.text.length
      if (characters > charactersKept) clear()
      kept.set(id, made)
    },
  }
}
