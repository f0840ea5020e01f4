import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { type AuditEntry, appendAudit, auditRecorder, type RecordAudit, type TimedEntry } from './chain.ts'

/** The audit log as other modules write to it. */
export interface Audit {
  record: RecordAudit
  /** Queues an entry that has no transaction of its own; it is written within a second, in one transaction with others. */
  note: (entry: AuditEntry) => void
  /**
   * Records events that anyone can trigger: the first of a kind per minute as an entry, the rest as one count at the end of
   * the minute. Beyond 60 kinds only their number is recorded.
   */
  tally: (entry: AuditEntry) => void
  /** Like `tally`, for events that a client may repeat often; beyond 1,000 kinds each event is an entry. */
  repeated: (entry: AuditEntry) => void
  /** Resolves when all queued entries are durable; call on shutdown. */
  flush: () => Promise<void>
}

export interface AuditSources {
  db: Database
  sealer: Sealer
  /** Milliseconds since the epoch. */
  now: () => number
  /** Called when a batch could not be written; it stays queued and is retried. */
  onError: (error: unknown) => void
}

const flushMs = 1_000
const minuteMs = 60_000
const kindsAMinute = 60
const repeatedKinds = 1_000
const entriesABatch = 500
/** Maximum number of entries in memory while the database is unavailable; further ones are dropped and counted. */
const entriesKept = 10_000

/** Opens the audit log. */
export function openAudit(sources: AuditSources): Audit {
  const { sealer, now } = sources
  const { note, write } = batches(sources, () => [tallies.tick(), repetitions.tick()].includes(true))
  const tallies = counted(note, now, kindsAMinute, null)
  const repetitions = counted(note, now, repeatedKinds, note)
  const flush = () => {
    tallies.end()
    repetitions.end()
    return write()
  }
  return { record: auditRecorder(sealer, now), note, tally: tallies.tally, repeated: repetitions.tally, flush }
}

/** Queue of entries, written in batches once a second while there are any; `tick` runs before each batch. */
function batches({ db, sealer, now, onError }: AuditSources, tick: () => boolean) {
  const waiting: TimedEntry[] = []
  let isAwake = false
  let lost = 0
  let writing: Promise<void> = Promise.resolve()

  const wake = () => {
    if (isAwake) return
    isAwake = true
    setTimeout(() => {
      isAwake = false
      const goesOn = tick()
      write().catch(onError)
      if (goesOn || waiting.length > 0) wake()
    }, flushMs).unref()
  }
  const note = (entry: AuditEntry) => {
    if (waiting.length >= entriesKept) lost++
    else waiting.push({ ...entry, at: new Date(now()).toISOString() })
    wake()
  }
  const writeAll = async () => {
    if (lost > 0)
      waiting.push({ event: 'audit.overflow', at: new Date(now()).toISOString(), details: { entries: lost } })
    lost = 0
    while (waiting.length > 0) {
      const due = waiting.slice(0, entriesABatch)
      await db.write((tx) => appendAudit(tx, sealer, due))
      waiting.splice(0, due.length)
    }
  }
  // Batches are written one after the other; a failed one stays queued.
  const write = () => {
    writing = writing.catch(() => {}).then(writeAll)
    return writing
  }
  return { note, write }
}

/** Counts per minute; events beyond `kinds` kinds go to `beyond`, or only their number is recorded. */
function counted(note: Audit['note'], now: () => number, kinds: number, beyond: Audit['note'] | null) {
  const seen = new Map<string, { entry: AuditEntry; more: number }>()
  let [startedAt, overflown] = [0, 0]

  const end = () => {
    for (const { entry, more } of seen.values()) {
      if (more > 0) note({ ...entry, requestId: null, details: { ...entry.details, more } })
    }
    seen.clear()
    if (overflown > 0) note({ event: 'audit.overflow', details: { entries: overflown } })
    overflown = 0
  }
  /** Ends the minute once it has elapsed; true while a minute is open. */
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
    else if (seen.size >= kinds) beyond ? beyond(entry) : overflown++
    else {
      seen.set(kind, { entry, more: 0 })
      note(entry)
    }
  }
  return { tally, tick, end }
}
