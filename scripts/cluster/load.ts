import { type ActionOptions, actionsOf } from './actions.ts'

/** The share of each action in the load, in percent. */
const shares = { read: 40, list: 10, create: 15, change: 20, report: 5, look: 10 } as const

const maxInFlight = 500

export interface Load {
  /** The number of started actions, excluding those skipped because too many were in flight. */
  started: () => number
  /** Stops starting actions, and resolves when all running ones have finished. */
  stop: () => Promise<void>
}

/** Starts actions at a constant rate, no matter how long they take. */
export function startLoad(perSecond: number, options: ActionOptions): Load {
  const actions = actionsOf(options)
  const running = new Set<Promise<void>>()
  const begunMs = performance.now()
  let [due, started] = [0, 0]
  const startOne = () => {
    if (running.size >= maxInFlight) {
      options.tally.violations.add(`${maxInFlight} actions are in flight: the cluster does not respond`)
      return
    }
    started++
    const action: Promise<void> = actions[pick(options.random)]()
      .catch((error: Error) => void options.tally.violations.add(String(error.stack)))
      .finally(() => running.delete(action))
    running.add(action)
  }
  const timer = setInterval(() => {
    const dueNow = Math.floor(((performance.now() - begunMs) * perSecond) / 1_000)
    for (; due < dueNow; due++) startOne()
  }, 10)
  return {
    started: () => started,
    stop: async () => {
      clearInterval(timer)
      while (running.size > 0) await Promise.all(running)
    },
  }
}

function pick(random: () => number): keyof typeof shares {
  let left = random() * 100
  for (const [name, share] of Object.entries(shares)) {
    left -= share
    if (left < 0) return name as keyof typeof shares
  }
  return 'read'
}
