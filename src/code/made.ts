import type { Declaration } from '../resources/declaration.ts'

/** The kinds of code that a definition can contain. */
export type CodeKind = 'hooks' | 'action' | 'event' | 'job' | 'schedule'

const mark = Symbol('made by plinth')

/** A value that `hooks()`, `action()`, `event()`, `job()` or `schedule()` returned. */
export interface Made<Kind extends CodeKind = CodeKind> {
  readonly [mark]: true
  readonly kind: Kind
  /** Identifies the code in errors and logs, such as `action send of /invoices` or `job invoice.remind`. */
  readonly label: string
  /** The collection that the code belongs to, if any. */
  readonly of?: Declaration
}

/** Returns true for a value that `hooks()`, `action()`, `event()`, `job()` or `schedule()` returned. */
export const isMade = (value: unknown): value is Made => typeof value === 'object' && value !== null && mark in value

/**
 * Code that was declared but not yet passed to a `service()`. Without this list, code that the author forgot to pass
 * could not be detected, such as hooks that would never run.
 */
const notGiven = new Set<Made>()

/** Marks a new piece of code and freezes it. */
export function made<Kind extends CodeKind, Parts extends object>(
  kind: Kind,
  label: string,
  parts: Parts,
): Made<Kind> & Parts {
  const value = Object.freeze({ ...parts, kind, label, [mark]: true as const })
  notGiven.add(value)
  return value
}

/** Records that this code was passed to a service. */
export function markGiven(given: readonly Made[]): void {
  for (const one of given) notGiven.delete(one)
}

/** Returns the code that was not passed to any service; with `declarations`, only the code for these collections. */
export const codeNotGiven = (declarations?: readonly Declaration[]): Made[] =>
  [...notGiven].filter(({ of }) => declarations === undefined || (of !== undefined && declarations.includes(of)))
