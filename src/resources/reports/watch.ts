import { whenAborted } from '../../http/response-end.ts'
import { type Places, places } from './places.ts'

/** Runs something after a while, in ms; returns how to call it off. */
export type Later = (ms: number, run: () => void) => () => void

/** As much of a task as decides whether a wait for it is over. */
export interface TaskState {
  revision: number
  isFinished: boolean
}

/** Where requests wait for tasks to change. */
export interface TaskWatch {
  /** Bounds the requests that wait: each takes a place for as long as its response is open. */
  places: Places
  /**
   * Resolves when a look at the task meets the condition, when the task is gone, when the time is over, when the signal is
   * aborted or when the service stops; undefined, at once, when it has stopped already.
   */
  until: (taskId: string, isMet: IsMet, ms: number, signal: AbortSignal) => Promise<void> | undefined
  /** Ends all waits, now and from now on. */
  close: () => void
}

export type IsMet = (state: TaskState) => boolean

export interface TaskWatchOptions {
  /** The states of those of the tasks that exist. */
  states: (taskIds: string[]) => Promise<Map<string, TaskState>>
  later: Later
  /** How many requests of one account may wait in this process. */
  perAccount?: number
}

interface Waiter {
  taskId: string
  isMet: IsMet
  goOn: () => void
}

/** How soon a change is seen: one query for all waiters, and none while nobody waits. */
export const lookEveryMs = 100
export const defaultWaitersPerAccount = 20
export const mostWaiters = 1_000

/** One look at the store for all waiters of this process, whatever process works on the tasks. */
export function watchTasks({ states, later, perAccount = defaultWaitersPerAccount }: TaskWatchOptions): TaskWatch {
  const waiters = new Set<Waiter>()
  let looking = false
  let closed = false

  const letGoOn = (some: Iterable<Waiter>) => {
    for (const waiter of some) waiter.goOn()
  }
  const look = async () => {
    const seen = [...waiters]
    const current = await states([...new Set(seen.map(({ taskId }) => taskId))])
    letGoOn(
      seen.filter(({ taskId, isMet }) => {
        const state = current.get(taskId)
        return state === undefined || isMet(state)
      }),
    )
  }
  const lookSoon = () => {
    looking = waiters.size > 0
    if (!looking) return
    later(lookEveryMs, () => {
      if (waiters.size === 0) looking = false
      // Where the store fails each waiter goes on and meets the failure when it reads its task.
      else
        look()
          .catch(() => letGoOn(waiters))
          .then(lookSoon)
    })
  }

  return {
    places: places({ perAccount, inAll: mostWaiters }),
    until: (taskId, isMet, ms, signal) => {
      if (closed) return undefined
      return new Promise((resolve) => {
        const waiter = { taskId, isMet, goOn: () => goOn() }
        const callOff = later(ms, waiter.goOn)
        const goOn = () => {
          waiters.delete(waiter)
          callOff()
          signal.removeEventListener('abort', waiter.goOn)
          resolve()
        }
        waiters.add(waiter)
        whenAborted(signal, waiter.goOn)
        if (!looking) lookSoon()
      })
    },
    close: () => {
      closed = true
      letGoOn(waiters)
    },
  }
}
