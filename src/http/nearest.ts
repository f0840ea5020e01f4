/** Returns the known name with the smallest edit distance from a misspelled name; undefined if none is close enough. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const wanted = name.slice(0, maxLength).toLowerCase()
  const maxEdits = Math.max(1, Math.floor(wanted.length / 3))
  const [best] = known
    .map((candidate) => ({ candidate, edits: editsBetween(wanted, candidate.toLowerCase()) }))
    .filter(({ edits }) => edits <= maxEdits)
    .sort((one, other) => one.edits - other.edits)
  return best?.candidate
}

/** Only the first 60 characters of the misspelled name are compared, because the cost grows with its length. */
const maxLength = 60

/** Counts insertions, deletions, substitutions and swaps of adjacent characters (optimal string alignment distance). */
function editsBetween(from: string, to: string): number {
  let before: number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let line = 1; line <= from.length; line++) {
    const next = [line]
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[line - 1] === to[column - 1]
      const isSwap = line > 1 && column > 1 && from[line - 1] === to[column - 2] && from[line - 2] === to[column - 1]
      const edits = [at(row, column) + 1, at(next, column - 1) + 1, at(row, column - 1) + (isSame ? 0 : 1)]
      if (isSwap) edits.push(at(before, column - 2) + 1)
      next.push(Math.min(...edits))
    }
    before = row
    row = next
  }
  return at(row, to.length)
}

const at = (row: readonly number[], column: number): number => row[column] ?? Number.POSITIVE_INFINITY
