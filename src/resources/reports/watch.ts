/** Runs something after a while, in ms; returns how to call it off. */
export type Later = (ms: number, run: () => void) => () => void

/** Where requests wait for tasks to change. */
export interface TaskWatch {
  /**
   * Resolves when the task's revision is no longer this one, when the time is over, when the signal is aborted or when
   * the service stops; undefined, at once, when too many wait already.
   */
  change: (taskId: string, revision: number, ms: number, signal: AbortSignal) => Promise<void> | undefined
  /** Lets everybody go on, now and from now on. */
  close: () => void
}

export interface TaskWatchOptions {
  /** The revisions of those of the tasks that exist. */
  revisions: (taskIds: string[]) => Promise<Map<string, number>>
  later: Later
}

interface Waiter {
  taskId: string
  revision: number
  goOn: () => void
}

/** How soon a change is seen: one query for all waiters, and none while nobody waits. */
export const lookEveryMs = 100
export const mostWaiters = 1_000

/** One look at the store for everybody who waits in this process, whatever process works on the tasks. */
export function watchTasks({ revisions, later }: TaskWatchOptions): TaskWatch {
  const waiters = new Set<Waiter>()
  let looking = false
  let closed = false

  const letGoOn = (some: Iterable<Waiter>) => {
    for (const waiter of some) waiter.goOn()
  }
  const look = async () => {
    const asking = [...waiters]
    const current = await revisions([...new Set(asking.map(({ taskId }) => taskId))])
    letGoOn(asking.filter(({ taskId, revision }) => current.get(taskId) !== revision))
  }
  const lookSoon = () => {
    looking = waiters.size > 0
    if (!looking) return
    later(lookEveryMs, () => {
      if (waiters.size === 0) looking = false
      // A store that fails is met by each of them again, when it reads its task.
      else
        look()
          .catch(() => letGoOn(waiters))
          .then(lookSoon)
    })
  }

  return {
    change: (taskId, revision, ms, signal) => {
      if (closed || waiters.size >= mostWaiters) return undefined
      return new Promise((resolve) => {
        const waiter = { taskId, revision, goOn: () => goOn() }
        const callOff = later(ms, waiter.goOn)
        const goOn = () => {
          waiters.delete(waiter)
          callOff()
          signal.removeEventListener('abort', waiter.goOn)
          resolve()
        }
        waiters.add(waiter)
        signal.addEventListener('abort', waiter.goOn)
        if (signal.aborted) goOn()
        if (!looking) lookSoon()
      })
    },
    close: () => {
      closed = true
      letGoOn(waiters)
    },
  }
}
