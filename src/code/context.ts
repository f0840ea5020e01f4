import type { Queue } from '../queue/queue.ts'
import { nextNumber } from '../resources/constraints/counted.ts'
import type { WriteBy } from '../resources/writes/hooks.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { RandomBytes } from '../storage/ids.ts'
import type { CodeCalls } from './calls.ts'
import type { CodeContext, CodeLog, EnqueueOptions } from './context-types.ts'
import { emitted } from './emit.ts'
import type { AnyEvent } from './event.ts'
import type { JobQueue } from './jobs.ts'
import type { CollectionOf } from './rows/collections.ts'
import { contextRows, type TransactionScope, type Unit } from './rows/context-rows.ts'
import { trackedKysely } from './tracked-kysely.ts'

/** The dependencies of all contexts. */
export interface ContextParts {
  db: Database
  queue: Queue
  random: RandomBytes
  now: () => number
  collectionOf: CollectionOf
  jobs: JobQueue
  /** Sends requests only to addresses that webhooks may use. */
  fetch: typeof fetch
  log: CodeLog
}

/** One run of the author's code. */
export interface CodeRun {
  /** Identifies the hook, action or job in messages, such as `creating of /invoices` for a hook. */
  label: string
  /** The current transaction or, outside a transaction, functions that run reads and writes. */
  place: TransactionScope
  by: WriteBy
  calls: CodeCalls
  signal: AbortSignal
}

/** Returns the context for one run of the author's code. */
export function codeContext(parts: ContextParts, run: CodeRun): CodeContext {
  const { db, now, log } = parts
  const { place, by, calls, label } = run
  const inUnit = <T>(work: Unit<T>) =>
    'tx' in place ? work(place.tx, { ...by, now: new Date(now()).toISOString() }) : place.write(work)
  const write = <T>(what: string, work: Unit<T>) => calls.track(what, () => inUnit(work))
  const atEnd = (what: string, work: (tx: Queryable) => Promise<void>) => {
    if (by.unit) by.unit.atEnd(work)
    else calls.background(what, () => inUnit((tx) => work(tx)))
  }
  const rows = { ...parts, ...run, write }
  const context = {
    ...contextRows(rows, 'asService'),
    // Created on first access, because hooks run in every write but few need it.
    get asCaller() {
      return contextRows(rows, 'asCaller')
    },
    emit: (event: AnyEvent, ...given: unknown[]) => {
      calls.assertOpen('emit')
      atEnd('emit', emitted(parts, event, given, by))
    },
    enqueue: ({ name }: { name: string }, input: unknown, options: EnqueueOptions = {}) => {
      calls.assertOpen('enqueue')
      parts.jobs.check(name, input, options)
      atEnd('enqueue', (inside) => parts.jobs.enqueue(inside, name, input, options))
    },
    next: (name: string) => write('next', (inside) => nextNumber(inside, name)),
    transaction: transactionOf(parts, run),
    clock: () => new Date(now()),
    log: codeLog(log, label),
    signal: run.signal,
    fetch: 'tx' in place ? noFetch(label) : parts.fetch,
    get db() {
      return trackedKysely('tx' in place ? place.tx : db.read, (what, execute) =>
        write(what, (inside) => execute(inside)),
      )
    },
  }
  return context as unknown as CodeContext
}

interface Lazy {
  make: () => object
  made?: object
}

const madeOf = (lazy: Lazy) => {
  lazy.made ??= lazy.make()
  return lazy.made
}

const lazyHandler: ProxyHandler<Lazy> = {
  get: (lazy, name) => Reflect.get(madeOf(lazy), name),
  has: (lazy, name) => Reflect.has(madeOf(lazy), name),
  ownKeys: (lazy) => Reflect.ownKeys(madeOf(lazy)),
  getOwnPropertyDescriptor: (lazy, name) => Reflect.getOwnPropertyDescriptor(madeOf(lazy), name),
  set: () => false,
}

/** Returns an object that is created on first use, because hooks run in every write but many need no context. */
export const lazily = <Made extends object>(make: () => Made): Made => new Proxy<Lazy>({ make }, lazyHandler) as Made

/** Returns the context's `transaction` function. Inside a transaction, the work joins that transaction. */
function transactionOf(parts: ContextParts, run: CodeRun): CodeContext['transaction'] {
  const { place, calls } = run
  if ('tx' in place) return (work) => work(codeContext(parts, run))
  return (work) =>
    calls.track('transaction', () => place.write((tx, by) => work(codeContext(parts, { ...run, place: { tx }, by }))))
}

const codeLog = (log: CodeLog, code: string): CodeLog => ({
  info: (fields, message) => log.info({ code, ...fields }, message),
  warn: (fields, message) => log.warn({ code, ...fields }, message),
  error: (fields, message) => log.error({ code, ...fields }, message),
})

const noFetch = (label: string) => async () => {
  throw new Error(`${label} runs in a transaction, which a slow response would hold open: use fetch in a job`)
}
