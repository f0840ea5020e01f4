import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { type AuditEntry, appendAudit, auditRecorder, type RecordAudit, type TimedEntry } from './chain.ts'

/** The audit log as the service writes it. */
export interface Audit {
  record: RecordAudit
  /** Adds an entry within a second, in one transaction with others; for what has no transaction of its own. */
  note: (entry: AuditEntry) => void
  /**
   * Adds what anybody can cause at will: the first of its kind in a minute as an entry, the rest as one count when the
   * minute is over; past 60 kinds only their number.
   */
  tally: (entry: AuditEntry) => void
  /** Counts in the same way what a client may do over and over; past 1,000 kinds each is an entry. */
  repeated: (entry: AuditEntry) => void
  /** Resolves when everything told so far is durable; part of an orderly stop. */
  flush: () => Promise<void>
}

export interface AuditSources {
  db: Database
  sealer: Sealer
  /** Milliseconds since the epoch. */
  now: () => number
  /** Is told when a batch could not be written; it is kept and tried again. */
  onError: (error: unknown) => void
}

const flushMs = 1_000
const minuteMs = 60_000
const kindsAMinute = 60
const repeatedKinds = 1_000
const entriesABatch = 500
/** More than that is not kept in memory while the database is away: what is lost is counted. */
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

/** Entries that wait to be written, a batch each second while there are any; `tick` comes before each batch. */
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
  // One after the other; a batch that fails stays where it is.
  const write = () => {
    writing = writing.catch(() => {}).then(writeAll)
    return writing
  }
  return { note, write }
}

/** Counts minute by minute; what comes after `kinds` kinds is for `beyond`, or only its number is told. */
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
  /** Ends the minute when it is over; true while one is running. */
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
