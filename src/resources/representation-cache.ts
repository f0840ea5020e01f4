import type { Representation } from '../http/fast-read.ts'
import type { Database } from '../storage/database.ts'
import type { RowId } from '../storage/ids.ts'

/** Cached representations of a table's rows, by id. */
export interface Representations {
  /** Returns the cached representation; undefined if there is none or anything has been written since. */
  get: (id: RowId) => Representation | undefined
  /** Caches a representation; its row must have been read in this iteration of the event loop. */
  set: (id: RowId, representation: Representation) => void
}

const maxCharacters = 4_000_000

/** Caches about four megabytes until the next write of any kind; disabled if the engine has no generation. */
export function representationCache({ generation }: Pick<Database, 'generation'>): Representations {
  const cached = new Map<RowId, Representation>()
  let characters = 0
  let current: number | null = null
  const clear = () => {
    cached.clear()
    characters = 0
  }
  return {
    get: (id) => {
      const now = generation()
      if (now !== current) clear()
      current = now
      return cached.get(id)
    },
    set: (id, representation) => {
      if (current === null) return
      characters += representation.text.length
      if (characters > maxCharacters) clear()
      cached.set(id, representation)
    },
  }
}
