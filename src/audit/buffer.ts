import type { FastifyRequest } from 'fastify'
import { auditActor } from '../http/policies/authenticate.ts'
import type { Plaintext } from '../http/policies/https.ts'
import type { Problem } from '../http/problems/problem.ts'
import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { type AuditEntry, appendAudit, auditRecorder, type RecordAudit, type TimedEntry } from './chain.ts'

/** The interface through which other modules write to the audit log. */
export interface Audit {
  record: RecordAudit
  /** Queues an entry that does not belong to a transaction. It is written within a second, in a batch with others. */
  note: (entry: AuditEntry) => void
  /**
   * Records events that anyone can trigger. The first event of each kind in a minute becomes an entry; further events of
   * that kind become a count, which is recorded at the end of the minute. Beyond 60 kinds, only the number of events is
   * recorded.
   */
  tally: (entry: AuditEntry) => void
  /**
   * Like `tally`, for events that a client may repeat often; beyond 1,000 kinds in a minute, each event becomes an entry.
   */
  repeated: (entry: AuditEntry) => void
  /** Resolves when all queued entries are durable; call on shutdown. */
  flush: () => Promise<void>
}

export interface AuditSources {
  db: Database
  sealer: Sealer
  /** Returns the current time in ms since the epoch. */
  now: () => number
  /** Called with each event, before repetitions are combined. */
  onEntry?: (entry: AuditEntry) => void
  /** Called when a batch could not be written; the batch stays queued and is retried. */
  onError: (error: unknown) => void
}

const flushMs = 1_000
const minuteMs = 60_000
const kindsPerMinute = 60
const repeatedKinds = 1_000
const entriesPerBatch = 500
/** Maximum number of entries in memory while the database is unavailable; further entries are dropped and counted. */
const maxQueued = 10_000

/** Creates the interface to the audit log. */
export function openAudit(sources: AuditSources): Audit {
  const { sealer, now, onEntry = () => {} } = sources
  const { note, write } = batches(sources, () => [tallies.tick(), repetitions.tick()].includes(true))
  const tallies = counted(note, now, kindsPerMinute, null)
  const repetitions = counted(note, now, repeatedKinds, note)
  const flush = () => {
    tallies.end()
    repetitions.end()
    return write()
  }
  const reported = (take: Audit['note']) => (entry: AuditEntry) => {
    onEntry(entry)
    take(entry)
  }
  return {
    record: auditRecorder(sealer, now),
    ...{ note: reported(note), tally: reported(tallies.tally), repeated: reported(repetitions.tally) },
    flush,
  }
}

/** Queues entries and, while there are any, writes them in batches once a second; `tick` runs before each batch. */
function batches({ db, sealer, now, onError }: AuditSources, tick: () => boolean) {
  const waiting: TimedEntry[] = []
  let isScheduled = false
  let dropped = 0
  let writing: Promise<void> = Promise.resolve()

  const schedule = () => {
    if (isScheduled) return
    isScheduled = true
    setTimeout(() => {
      isScheduled = false
      const hasOpenMinute = tick()
      write().catch(onError)
      if (hasOpenMinute || waiting.length > 0) schedule()
    }, flushMs).unref()
  }
  const note = (entry: AuditEntry) => {
    if (waiting.length >= maxQueued) dropped++
    else waiting.push({ ...entry, at: new Date(now()).toISOString() })
    schedule()
  }
  const writeAll = async () => {
    if (dropped > 0)
      waiting.push({ event: 'audit.overflow', at: new Date(now()).toISOString(), details: { entries: dropped } })
    dropped = 0
    while (waiting.length > 0) {
      const due = waiting.slice(0, entriesPerBatch)
      await db.write((tx) => appendAudit(tx, sealer, due))
      waiting.splice(0, due.length)
    }
  }
  // Batches are written one at a time; the entries in a failed batch stay queued.
  const write = () => {
    writing = writing.catch(() => {}).then(writeAll)
    return writing
  }
  return { note, write }
}

/**
 * Counts events per minute. Once `kinds` different kinds have occurred in a minute, passes events of any other kind to
 * `beyond` or, if that is null, records only their number.
 */
function counted(note: Audit['note'], now: () => number, kinds: number, beyond: Audit['note'] | null) {
  const seen = new Map<string, { entry: AuditEntry; more: number }>()
  let [startedAt, uncounted] = [0, 0]

  const end = () => {
    for (const { entry, more } of seen.values()) {
      if (more > 0) note({ ...entry, requestId: null, details: { ...entry.details, more } })
    }
    seen.clear()
    if (uncounted > 0) note({ event: 'audit.overflow', details: { entries: uncounted } })
    uncounted = 0
  }
  /** Ends the current one-minute window if it has elapsed; returns true if a window is still open. */
  const tick = () => {
    if (now() - startedAt >= minuteMs) end()
    return seen.size > 0
  }
  const tally = (entry: AuditEntry) => {
    tick()
    if (seen.size === 0) startedAt = now()
    const kind = JSON.stringify({ ...entry, requestId: null })
    const known = seen.get(kind)
    if (known) known.more++
    else if (seen.size >= kinds) beyond ? beyond(entry) : uncounted++
    else {
      seen.set(kind, { entry, more: 0 })
      note(entry)
    }
  }
  return { tally, tick, end }
}

/** Audits credentials sent over plain HTTP. */
export const auditPlaintextCredential =
  (audit: Pick<Audit, 'tally'>) =>
  ({ address, header }: Plaintext): void =>
    audit.tally({ event: 'credential.plaintext', address, details: { header } })

/** Returns the functions that audit rejected requests and credentials sent over plain HTTP. */
export function refusals(audit: Pick<Audit, 'tally'> | undefined) {
  const onDenied = (request: FastifyRequest, { code }: Problem) => {
    const target = `${request.method} ${request.routeOptions.url}`
    audit?.tally({ ...auditActor(request), event: 'access.denied', target, details: { errorCode: code } })
  }
  return { onDenied, onPlaintext: audit && auditPlaintextCredential(audit) }
}
