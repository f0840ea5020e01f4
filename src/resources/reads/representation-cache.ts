import type { Representation } from '../../http/fast-read.ts'
import type { ChangeTracker } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'

/** Cached representations of a table's rows, by id. */
export interface Representations {
  /** Returns the cached representation; undefined if there is none or the row may have changed since. */
  get: (id: RowId) => Representation | undefined
  /** Caches a representation. Its row must have been read in the current iteration of the event loop. */
  set: (id: RowId, representation: Representation) => void
  /**
   * Replaces the cached representation of a changed row; does nothing if none is cached. `asOf` is the number of the
   * change (`ChangeTracker.pending`).
   */
  replace: (id: RowId, representation: Representation, asOf: number) => void
}

/** A cached representation has about 200 characters of header fields in addition to its text. */
const [maxCharacters, fieldCharacters] = [8_000_000, 200]
const noCache: Representations = { get: () => undefined, set: () => {}, replace: () => {} }

/**
 * Caches about eight megabytes of representations, each until its row changes. Without `changes`, nothing is cached.
 */
export function representationCache(table: string, changes: ChangeTracker | null): Representations {
  if (changes === null) return noCache
  const cached = new Map<RowId, { representation: Representation; asOf: number }>()
  let characters = 0
  const remove = (id: RowId) => {
    const entry = cached.get(id)
    if (entry) characters -= entry.representation.text.length + fieldCharacters
    cached.delete(id)
  }
  const store = (id: RowId, representation: Representation, asOf: number) => {
    remove(id)
    cached.set(id, { representation, asOf })
    characters += representation.text.length + fieldCharacters
    for (const oldest of cached.keys()) {
      if (characters <= maxCharacters) break
      remove(oldest)
    }
  }
  return {
    get: (id) => {
      const entry = cached.get(id)
      if (entry === undefined) return undefined
      const last = changes.last()
      if (last !== entry.asOf && changes.lastOfRow(table, id) > entry.asOf) return undefined
      entry.asOf = last
      return entry.representation
    },
    set: (id, representation) => store(id, representation, changes.last()),
    replace: (id, representation, asOf) => {
      if (cached.has(id)) store(id, representation, asOf)
    },
  }
}
