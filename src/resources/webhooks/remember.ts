/** A pure function of texts that remembers its last `most` answers; what it throws is not remembered. */
export function remember<A extends readonly string[], R>(
  most: number,
  compute: (...given: A) => R,
): (...given: A) => R {
  const known = new Map<string, R>()
  return (...given) => {
    const key = given.length === 1 ? (given[0] as string) : given.join('\0')
    const found = known.get(key)
    if (found !== undefined) return found
    const made = compute(...given)
    if (known.size >= most) known.delete(known.keys().next().value as string)
    known.set(key, made)
    return made
  }
}
