import { Refusal } from './refuse.ts'

/** Maximum run time of a hook or an action, excluding the time that it waits for its calls. */
const maxRunMs = 250

/** Thrown if the author's code fails; the response is a 500. The `cause`, if any, is the original error. */
export class CodeError extends Error {
  override name = 'CodeError'
}

/** Tracks the context methods that one run of the author's code calls. */
export interface CodeCalls {
  /**
   * Runs a context method for the code. In a transaction, a failed call rolls the transaction back even if the code
   * catches the error, because PostgreSQL accepts no more statements after an error.
   */
  track: <T>(what: string, run: () => Promise<T>) => Promise<T>
  /** Runs a context method that returns no promise to the code. If it fails, the run fails. */
  background: (what: string, run: () => Promise<void>) => void
  /** Throws if the run has ended. */
  assertOpen: (what: string) => void
}

interface RunTimes {
  /** Monotonic clock in ms. */
  monotonic: () => number
  running?: ((label: string) => void) | undefined
}

/** One run of the author's code. */
interface Run {
  label: string
  /** Whether any failed call makes the run fail; if false, only a failed background call does. */
  isInTransaction: boolean
  running: (label: string) => void
  pending: Set<Promise<unknown>>
  failure: { error: unknown } | undefined
  isOpen: boolean
}

const newRun = (label: string, isInTransaction: boolean, running: (label: string) => void): Run => ({
  ...{ label, isInTransaction, running },
  pending: new Set(),
  failure: undefined,
  isOpen: true,
})

/** Returns the functions that track the calls of a run. */
function callsOf(run: Run): CodeCalls {
  const note = (error: unknown) => {
    run.failure ??= { error }
  }
  const assertOpen = (what: string) => {
    if (!run.isOpen) throw new CodeError(`${run.label} called ${what}() after it had ended: await every call`)
  }
  // Must run before the code that awaits the call continues.
  const resume = () => run.running(run.isOpen ? run.label : '')
  const add = (settled: Promise<void>) => {
    run.pending.add(settled)
    settled.finally(() => run.pending.delete(settled))
  }
  return {
    assertOpen,
    track: (what, work) => {
      const call = (async () => {
        assertOpen(what)
        return work()
      })()
      // Handle the rejection even if the code does not await the call.
      add(
        call.then(resume, (error) => {
          resume()
          if (run.isInTransaction) note(error)
        }),
      )
      return call
    },
    background: (what, work) => {
      assertOpen(what)
      add(work().catch(note))
    },
  }
}

async function end(run: Run): Promise<void> {
  run.isOpen = false
  run.running('')
  // Wait for all statements, because none may reach the connection after the end of the transaction.
  if (run.pending.size > 0) await Promise.all(run.pending)
}

/**
 * Runs the author's code inside a transaction. Throws a `CodeError` if the code throws, awaits anything other than its
 * calls, leaves a call unfinished, or takes too long. Rethrows a `Refusal`, and errors for which `isPassedOn` returns
 * true.
 */
export async function runInTransaction<T>(
  label: string,
  { monotonic, running = ignore }: RunTimes,
  isPassedOn: (error: unknown) => boolean,
  work: (calls: () => CodeCalls) => T | Promise<T>,
): Promise<T> {
  const run = newRun(label, true, running)
  running(label)
  const began = monotonic()
  try {
    const returned = work(() => callsOf(run))
    const { value, waitedMs } =
      returned instanceof Promise ? await awaited(returned, run, monotonic) : { value: returned, waitedMs: 0 }
    if (run.pending.size > 0) throw new CodeError(`${label} ended before its calls: await every call`)
    if (run.failure) throw run.failure.error
    const tookMs = Math.round(monotonic() - began - waitedMs)
    if (tookMs > maxRunMs) throw new CodeError(`${label} took ${tookMs} ms; at most ${maxRunMs} ms are allowed`)
    return value
  } catch (error) {
    // This error takes precedence over any error that the code throws because of it.
    if (run.failure && isPassedOn(run.failure.error)) throw run.failure.error
    if (error instanceof Refusal || error instanceof CodeError || isPassedOn(error)) throw error
    if (error === foreignWait) throw new CodeError(`${label} awaits something other than its calls: use a job for it`)
    throw new CodeError(`${label} threw an error`, { cause: error })
  } finally {
    await end(run)
  }
}

/**
 * Runs the author's code outside a transaction, for example in a job. Rejects if the code or a background call fails.
 */
export async function runOutsideTransaction<T>(
  label: string,
  { running = ignore }: Pick<RunTimes, 'running'>,
  work: (calls: CodeCalls) => T | Promise<T>,
): Promise<T> {
  const run = newRun(label, false, running)
  running(label)
  try {
    const value = await work(callsOf(run))
    while (run.pending.size > 0) await Promise.all(run.pending)
    if (run.failure) throw run.failure.error
    return value
  } finally {
    await end(run)
  }
}

const foreignWait = new Error('awaits something else')

const ignore = () => {}

/**
 * Awaits the result of the author's code. `waitedMs` is the time that the code spent waiting for its calls. Throws
 * `foreignWait` if the code waits for anything else.
 */
async function awaited<T>(returned: Promise<T>, { pending }: Run, monotonic: () => number) {
  const outcome: { settled?: { value: T } } = {}
  const result = returned.then((value) => {
    outcome.settled = { value }
    return outcome.settled
  })
  // Prevents an early rejection from being reported as unhandled. The caller still receives it.
  result.catch(ignore)
  // An async function that awaits nothing has already settled.
  await null
  if (outcome.settled) return { ...outcome.settled, waitedMs: 0 }
  for (let waitedMs = 0; ; ) {
    const settled = await Promise.race([result, nextTurn()])
    if (settled) return { ...settled, waitedMs }
    if (pending.size === 0) throw foreignWait
    const at = monotonic()
    await Promise.race([result, ...pending])
    waitedMs += monotonic() - at
  }
}

const nextTurn = () => new Promise<undefined>((resolve) => setImmediate(resolve, undefined))
