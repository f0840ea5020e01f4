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
const sizeOf = ({ text }: Representation) => text.length + fieldCharacters
const noCache: Representations = { get: () => undefined, set: () => {}, replace: () => {} }

/**
 * Caches about eight megabytes of representations, each until its row changes. Without `changes`, nothing is cached.
 */
export function representationCache(table: string, changes: ChangeTracker | null): Representations {
  if (changes === null) return noCache
  const cached = new Map<RowId, { representation: Representation; asOf: number }>()
  let characters = 0
  const store = (id: RowId, representation: Representation, asOf: number) => {
    const before = cached.get(id)
    characters += sizeOf(representation) - (before ? sizeOf(before.representation) : 0)
    cached.set(id, { representation, asOf })
    if (characters > maxCharacters) evict()
  }
  // Evicts many entries at once, because a Map with many deleted keys takes long to find its first key.
  const evict = () => {
    for (const [id, { representation }] of cached) {
      if (characters <= (15 / 16) * maxCharacters) return
      cached.delete(id)
      characters -= sizeOf(representation)
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
