import type { ChangeLogReader, LoggedChange } from '../../storage/row-changes/read.ts'
import type { StoredValue } from '../../storage/rows/row-test.ts'

/** A row before or after a change, with the facts that access rules compare. */
export type Facts = Readonly<Record<string, unknown>>

/** A logged change of a row. */
export interface Change {
  at: number
  /** The `id` of the event: the position of the change in the log, as text. */
  eventId: string
  change: LoggedChange['change']
  rowId: string
  /** The row before the change; null if it did not exist or is not in the log. */
  before: Facts | null
  after: Facts | null
  /** The event's text for each `shape`; streams with the same shape share it. */
  texts: Map<string, string>
}

/** A field with the same value in every row of a stream, and that value. */
export interface SubscriberKey {
  /** Identifies the field within the resource. */
  field: string
  valueIn: (facts: Facts) => StoredValue | null
  value: StoredValue
}

/** Receives the changes of a resource. */
export interface Subscriber {
  noun: string
  /** Restricts the changes to one row, or to rows with a certain value in a field; null for all changes. */
  only: { rowId: string } | SubscriberKey | null
  deliver: (change: Change) => void
}

interface Keyed {
  valueIn: SubscriberKey['valueIn']
  byValue: Map<StoredValue, Set<Subscriber>>
}

/** The subscribers of one resource, grouped by their `only`. */
interface Registry {
  byRow: Map<string, Set<Subscriber>>
  byField: Map<string, Keyed>
  others: Set<Subscriber>
}

/** The subscribers of all resources. */
export interface Subscribers {
  /** Adds a subscriber; returns the function that removes it. */
  add: (subscriber: Subscriber) => () => void
  /** Passes a change to the subscribers whose `only` may match it. */
  deliver: (logged: LoggedChange) => void
  nouns: () => string[]
}

export function subscribers(): Subscribers {
  const registries = new Map<string, Registry>()
  return {
    add: (subscriber) => {
      const { noun } = subscriber
      const registry = registries.get(noun) ?? { byRow: new Map(), byField: new Map(), others: new Set() }
      registries.set(noun, registry)
      const remove = addTo(registry, subscriber)
      return () => {
        remove()
        if (registry.byRow.size + registry.byField.size + registry.others.size === 0) registries.delete(noun)
      }
    },
    deliver: (logged) => {
      const registry = registries.get(logged.noun)
      if (registry) for (const [one, change] of concerned(registry, logged)) one.deliver(change)
    },
    nouns: () => [...registries.keys()],
  }
}

function addTo({ byRow, byField, others }: Registry, subscriber: Subscriber): () => void {
  const { only } = subscriber
  if (only === null) {
    others.add(subscriber)
    return () => void others.delete(subscriber)
  }
  if ('rowId' in only) return addIn(byRow, only.rowId, subscriber)
  const keyed = byField.get(only.field) ?? { valueIn: only.valueIn, byValue: new Map() }
  byField.set(only.field, keyed)
  const remove = addIn(keyed.byValue, only.value, subscriber)
  return () => {
    remove()
    if (keyed.byValue.size === 0) byField.delete(only.field)
  }
}

function addIn<Key>(sets: Map<Key, Set<Subscriber>>, key: Key, subscriber: Subscriber): () => void {
  const set = sets.get(key) ?? new Set()
  sets.set(key, set.add(subscriber))
  return () => {
    set.delete(subscriber)
    if (set.size === 0) sets.delete(key)
  }
}

/** Returns the subscribers whose `only` may match a change, each with the parsed change. */
function concerned(registry: Registry, logged: LoggedChange): [Subscriber, Change][] {
  const { byRow, byField, others } = registry
  const ofRow = byRow.get(String(logged.id))
  if (ofRow === undefined && byField.size + others.size === 0) return []
  const change = changeOf(logged)
  const found = new Set([...others, ...(ofRow ?? [])])
  // If the row before the update is unknown, any stream may have contained it.
  const isUnknown = change.change === 'updated' && change.before === null
  for (const { valueIn, byValue } of byField.values()) {
    const sets = isUnknown
      ? byValue.values()
      : [change.after, change.before].map((row) => row && byValue.get(valueIn(row) as StoredValue))
    for (const set of sets) for (const one of set ?? []) found.add(one)
  }
  return [...found].map((one) => [one, change])
}

/** Returns the `id` of an event: the position of its change in the log, as text. */
export const eventIdOf = ({ at, tag }: { at: number; tag: string }): string => `${at}-${tag}`

/**
 * Parses a Last-Event-ID. Returns its position in the log; undefined if it is malformed or the log does not contain it.
 */
export async function positionOf(log: ChangeLogReader, eventId: string) {
  const [, at, tag = ''] = /^(\d{1,15})-([\w-]{1,20})$/.exec(eventId) ?? []
  return at === undefined ? undefined : log.find(Number(at), tag)
}

/** Converts a log entry to a change, whose rows are parsed on first use. */
export function changeOf(logged: LoggedChange): Change {
  const { at, change, id, before, after } = logged
  return { at, eventId: eventIdOf(logged), change, rowId: String(id), before, after, texts: new Map() }
}
