import type { RawBuilder } from 'kysely'
import type { Requester } from '../scans/scan.ts'

/** A table and its columns of folded text that a search looks into. */
export interface Searched {
  table: string
  columns: readonly string[]
}

/** Rows that may hold a text: all that do are among them. */
export interface Candidates {
  /** A select of their ids; `match` is the place of the parameter. */
  ids: (place: number) => RawBuilder<unknown>
  match: string
}

/** Finds rows by parts of their text; the reader still compares the text of each. */
export interface TextIndex {
  /**
   * The few rows among which all are that hold a folded text; undefined where they are many or unknown, and where the engine
   * finds them by itself: the condition on the text alone is then the way to read them.
   */
  candidates: (searched: Searched, text: string, requester: Requester) => Promise<Candidates | undefined>
  /** Resolves when nothing of it runs any more. */
  close: () => Promise<void>
}

const trigramsAtMost = 24

/**
 * A query of SQLite's FTS5 for rows that have the three-letter parts of a text, or a good sample of many; undefined for a
 * text without any. Letters are code points, as the tokenizer counts them.
 */
export function trigramQuery(text: string): string | undefined {
  const letters = [...text]
  const parts = new Set(letters.slice(2).map((_, at) => letters.slice(at, at + 3).join('')))
  if (parts.size === 0) return undefined
  const step = Math.ceil(parts.size / trigramsAtMost)
  const some = [...parts].filter((_, at) => at % step === 0)
  return some.map((part) => `"${part.replaceAll('"', '""')}"`).join(' AND ')
}
