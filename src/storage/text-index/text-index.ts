import type { RawBuilder } from 'kysely'
import type { ScanRequester } from '../scans/scan.ts'

/** A table, and the case-folded text columns that a search covers. */
export interface Searched {
  table: string
  columns: readonly string[]
}

/** Rows that may contain a text, including every row that does. */
export interface Candidates {
  /** Returns the condition for the candidates, with `match` as the value of the parameter at `position`. */
  condition: (position: number) => RawBuilder<boolean>
  match: string
}

/** Finds rows by substrings of their text; the caller still compares the text of each row. */
export interface TextIndex {
  /**
   * Resolves with a small set of rows that includes every row containing this case-folded text. Undefined if there are
   * too many candidates, if the index cannot find them, or if the engine uses its own index; the text condition alone
   * then selects the rows.
   */
  candidates: (searched: Searched, text: string, requester: ScanRequester) => Promise<Candidates | undefined>
  /** Resolves when all background work has ended. */
  close: () => Promise<void>
}

const maxTrigrams = 24

/**
 * Builds an FTS5 query for rows that contain the trigrams of a text, or a sample of them if there are many; undefined
 * if the text has none. A trigram is three code points, as in the FTS5 tokenizer.
 */
export function trigramQuery(text: string): string | undefined {
  const characters = [...text]
  const trigrams = new Set(characters.slice(2).map((_, at) => characters.slice(at, at + 3).join('')))
  if (trigrams.size === 0) return undefined
  const step = Math.ceil(trigrams.size / maxTrigrams)
  const sample = [...trigrams].filter((_, at) => at % step === 0)
  return sample.map((trigram) => `"${trigram.replaceAll('"', '""')}"`).join(' AND ')
}
