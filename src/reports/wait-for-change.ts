import type { FastifyReply, FastifyRequest } from 'fastify'
import { type SlotLimiter, slotLimiter } from '../files/slots.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import { preconditionOf } from '../http/policies/conditional.ts'
import { isNarrowed } from '../http/policies/partial-response.ts'
import { applied } from '../http/policies/prefer.ts'
import { responseEnd, whenAborted } from '../http/server/response-end.ts'
import type { Task } from '../storage/tables/tables.ts'
import { isFinished } from './tasks.ts'

/** Calls `run` after `ms` milliseconds; returns a function that cancels the timer. */
export type Later = (ms: number, run: () => void) => () => void

/** The parts of a task's state that decide whether a wait is over. */
export interface TaskState {
  revision: number
  isFinished: boolean
}

/** Lets requests wait for tasks to change. */
export interface TaskWatch {
  /** Limits waiting requests and event streams; each holds a slot for as long as its response is open. */
  slots: SlotLimiter
  /**
   * Resolves when the task meets the condition or no longer exists, after `ms`, when the signal is aborted, when a
   * query fails, or when the service stops. Returns undefined if the service has already stopped.
   */
  until: (taskId: string, isMet: IsMet, ms: number, signal: AbortSignal) => Promise<void> | undefined
  /** Ends all current waits and prevents further waits. */
  close: () => void
}

export type IsMet = (state: TaskState) => boolean

export interface TaskWatchOptions {
  /** Returns the states of the tasks with these ids, omitting tasks that do not exist. */
  states: (taskIds: string[]) => Promise<Map<string, TaskState>>
  later: Later
  /** Maximum number of waiting requests and event streams per account in this process. */
  perAccount?: number
}

interface Waiter {
  taskId: string
  isMet: IsMet
  resume: () => void
}

/** Polling interval. A single query serves all waiters; there are no queries while no one waits. */
export const pollEveryMs = 100
export const defaultWaitersPerAccount = 20
export const maxWaiters = 1_000

/**
 * Polls the database for all waiters in this process with one query, regardless of which process generates their
 * reports.
 */
export function watchTasks({ states, later, perAccount = defaultWaitersPerAccount }: TaskWatchOptions): TaskWatch {
  const waiters = new Set<Waiter>()
  let isPolling = false
  let closed = false

  const resumeAll = (some: Iterable<Waiter>) => {
    for (const waiter of some) waiter.resume()
  }
  const poll = async () => {
    const seen = [...waiters]
    const current = await states([...new Set(seen.map(({ taskId }) => taskId))])
    resumeAll(
      seen.filter(({ taskId, isMet }) => {
        const state = current.get(taskId)
        return state === undefined || isMet(state)
      }),
    )
  }
  const pollSoon = () => {
    isPolling = waiters.size > 0
    if (!isPolling) return
    later(pollEveryMs, () => {
      if (waiters.size === 0) isPolling = false
      // If the query fails, every wait ends, and each request gets the error when it reads its task.
      else
        poll()
          .catch(() => resumeAll(waiters))
          .then(pollSoon)
    })
  }

  return {
    slots: slotLimiter({ perAccount, inTotal: maxWaiters }),
    until: (taskId, isMet, ms, signal) => {
      if (closed) return undefined
      return new Promise((resolve) => {
        const waiter = { taskId, isMet, resume: () => resume() }
        const cancelTimer = later(ms, waiter.resume)
        const resume = () => {
          waiters.delete(waiter)
          cancelTimer()
          signal.removeEventListener('abort', waiter.resume)
          resolve()
        }
        waiters.add(waiter)
        whenAborted(signal, waiter.resume)
        if (!isPolling) pollSoon()
      })
    },
    close: () => {
      closed = true
      resumeAll(waiters)
    },
  }
}

/**
 * Returns the task. With `Prefer: wait` (RFC 7240 §4.3), waits until the task has finished or the time is up; with
 * If-None-Match, waits only until its next change. Does not wait if the client's entity tag shows that it missed a
 * change. If too many requests are waiting, ignores the preference and omits `Preference-Applied`.
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
  if (watch.slots.take(callerOf(request), end)) return task
  const waiting = watch.until(task.id, awaited(task, request), seconds * 1_000, end)
  if (waiting === undefined) return task
  applied(reply, `wait=${seconds}`)
  await waiting
  return read()
}

/** Returns the condition to wait for: any change if the client sent an entity tag, otherwise the task's completion. */
function awaited({ revision }: Task, { headers }: FastifyRequest): IsMet {
  if (headers['if-none-match'] === undefined) return ({ isFinished }) => isFinished
  return (state) => state.revision !== revision
}

/** Returns whether If-None-Match contains only other revisions. The tag of a partial response contains no revision. */
function hasMissedChange({ revision }: Task, request: FastifyRequest): boolean {
  const { differs = 'any' } = isNarrowed(request) ? {} : preconditionOf(request, false)
  return differs !== 'any' && !differs.includes(revision)
}
