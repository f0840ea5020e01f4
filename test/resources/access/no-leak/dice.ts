/** Random choices, reproducible from a seed. */
export interface Dice {
  /** Returns an integer from 0 up to, but not including, `max`. */
  int: (max: number) => number
  chance: (probability: number) => boolean
  one: <T>(choices: readonly T[]) => T
  /** Selects each choice with this probability, and preserves the order. */
  some: <T>(choices: readonly T[], probability?: number) => T[]
}

/** Returns a generator of the same random choices for the same seed (mulberry32). */
export function diceFrom(seed: number): Dice {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const int = (max: number) => Math.floor(next() * max)
  const chance = (probability: number) => next() < probability
  return {
    int,
    chance,
    one: (choices) => {
      if (choices.length === 0) throw new Error('There is nothing to choose from')
      return choices[int(choices.length)] as never
    },
    some: (choices, probability = 0.5) => choices.filter(() => chance(probability)),
  }
}
