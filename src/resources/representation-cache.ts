import type { Representation } from '../http/fast-read.ts'
import type { Database } from '../storage/database.ts'

/** Representations of the rows of a table as they were sent, by id. */
export interface Representations {
  /** What was sent, if nothing was written since. */
  of: (id: number) => Representation | undefined
  /** Keeps one that was made of what was read in this turn of the event loop. */
  keep: (id: number, made: Representation) => void
}

const charactersKept = 4_000_000

/** Keeps about four megabytes for as long as nothing at all is written; nothing where the engine cannot tell that. */
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
