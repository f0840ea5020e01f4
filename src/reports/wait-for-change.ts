import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../http/policies/authenticate.ts'
import { preconditionOf } from '../http/policies/conditional.ts'
import { isNarrowed } from '../http/policies/partial-response.ts'
import { applied } from '../http/policies/prefer.ts'
import { responseEnd, whenAborted } from '../http/server/response-end.ts'
import type { Task } from '../storage/tables/tables.ts'
import { type Places, places } from './places.ts'
import { isFinished } from './tasks.ts'

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
export const maxWaiters = 1_000

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
    places: places({ perAccount, inAll: maxWaiters }),
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

/**
 * The task, under `wait` (RFC 7240 §4.3) as it is when it has ended or the time is over; with If-None-Match as it is after
 * its next change. There is nothing to wait for when it has ended, or when the client's entity tag shows that it has
 * missed a change. Where the account or the process has too many waiting requests the preference is ignored, as RFC 7240
 * §2 allows: the task is answered at once, and `Preference-Applied` does not name it.
 */
export async function waitForChange(
  task: Task,
  read: () => Promise<Task>,
  request: FastifyRequest,
  reply: FastifyReply,
  watch: TaskWatch | undefined,
): Promise<Task> {
  const seconds = request.preferences?.wait
  if (seconds === undefined || watch === undefined) return task
  if (isFinished(task) || hasMissedChange(task, request)) {
    applied(reply, `wait=${seconds}`)
    return task
  }
  const end = responseEnd(reply)
  if (watch.places.take(callerOf(request), end)) return task
  const waiting = watch.until(task.id, awaited(task, request), seconds * 1_000, end)
  if (waiting === undefined) return task
  applied(reply, `wait=${seconds}`)
  await waiting
  return read()
}

/** A client that sends the tag of what it has waits for anything else, every other one for the end. */
function awaited({ revision }: Task, { headers }: FastifyRequest): IsMet {
  if (headers['if-none-match'] === undefined) return ({ isFinished }) => isFinished
  return (state) => state.revision !== revision
}

/** Whether If-None-Match names other revisions only; the tag of a narrowed answer tells no revision. */
function hasMissedChange({ revision }: Task, request: FastifyRequest): boolean {
  const { differs = 'any' } = isNarrowed(request) ? {} : preconditionOf(request, false)
  return differs !== 'any' && !differs.includes(revision)
}
