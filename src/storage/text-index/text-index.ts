import type { RawBuilder } from 'kysely'
import type { ScanRequester } from '../scans/scan.ts'

/** A table and its case-folded text columns that a search covers. */
export interface Searched {
  table: string
  columns: readonly string[]
}

/** Rows that may contain a text; every row that does is among them. */
export interface Candidates {
  /** A select of their ids; `match` is the value of the parameter at `place`. */
  ids: (place: number) => RawBuilder<unknown>
  match: string
}

/** Finds rows by substrings of their text; the caller still compares the text of each row. */
export interface TextIndex {
  /**
   * A small set of rows that includes all rows with a case-folded text. Undefined where they are many or unknown, and where
   * the engine finds them itself: the condition on the text alone is then the way to read them.
   */
  candidates: (searched: Searched, text: string, requester: ScanRequester) => Promise<Candidates | undefined>
  /** Resolves when its background work has ended. */
  close: () => Promise<void>
}

const trigramsAtMost = 24

/**
 * An FTS5 query for rows that have the trigrams of a text, or a sample when there are many; undefined for a text without
 * any. Trigrams are of code points, as the tokenizer counts them.
 */
export function trigramQuery(text: string): string | undefined {
  const letters = [...text]
  const parts = new Set(letters.slice(2).map((_, at) => letters.slice(at, at + 3).join('')))
  if (parts.size === 0) return undefined
  const step = Math.ceil(parts.size / trigramsAtMost)
  const some = [...parts].filter((_, at) => at % step === 0)
  return some.map((part) => `"${part.replaceAll('"', '""')}"`).join(' AND ')
}
