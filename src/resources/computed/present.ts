import { createHash } from 'node:crypto'
import { types } from 'node:util'
import type { Row } from '../../storage/rows/rows.ts'
import { conditionTest, rowPasses } from '../conditions/conditions.ts'
import { todayIn } from '../conditions/today.ts'
import type { FieldNames } from '../views/field-names.ts'
import type { DeclaredComputed } from './options.ts'

/** The current time, and the time zone of `'today'` (default: UTC). */
export interface Time {
  now: () => number
  zone?: string | undefined
}

/** Converts rows to their representations, by adding the fields that are not stored. */
export interface Presenter {
  present: (row: Row) => Row
  /**
   * Returns text that, together with the revision, identifies a row's representation: the day, and a digest of the
   * values of functions that use the clock. Undefined if the revision is enough.
   */
  variantOf: (presented: Row) => string | undefined
}

interface Presented {
  path: string
  computed: DeclaredComputed
}

/**
 * Returns a resource's presenter; undefined if representations contain only stored fields. The presenter throws if a
 * function of `derived` throws.
 */
export function presenter(
  { path, computed, view }: Presented & { view?: FieldNames & { collection: Presented } },
  time: Time,
): Presenter | undefined {
  const own = view && presenter(view.collection, time)
  if (view) {
    return (
      own && {
        present: (row) => view.toMembers(own.present(view.toOwn(row))),
        variantOf: (shown) => own.variantOf(view.toOwn(shown)),
      }
    )
  }
  const whens = Object.entries(computed.whens)
  const derived = Object.entries(computed.derived)
  if (whens.length + derived.length === 0) return undefined
  const today = todayIn(time)
  const clock = () => new Date(time.now())
  const timed = derived.filter(([, { usesClock }]) => usesClock).map(([name]) => name)
  return {
    present: (row) => {
      const shown: Row = { ...row }
      for (const [name, { condition, fields }] of whens) {
        shown[name] = rowPasses(conditionTest(condition, { fields, today }), row, { fields })
      }
      const seen = derived.length > 0 ? { ...shown } : shown
      for (const [name, { from }] of derived) shown[name] = made(`${path}: derived.${name}`, () => from(seen, clock))
      return shown
    },
    variantOf: (shown) => {
      const day = computed.usesToday ? [today()] : []
      const digest = timed.length > 0 ? [digestOf(timed.map((name) => shown[name] ?? null))] : []
      return day.length + digest.length > 0 ? [...day, ...digest].join('.') : undefined
    },
  } satisfies Presenter
}

function made(place: string, from: () => unknown): unknown {
  let value: unknown
  try {
    value = from()
  } catch (cause) {
    throw new Error(`${place} threw an error`, { cause })
  }
  if (types.isPromise(value)) throw new Error(`${place} returned a promise: it must return the value itself`)
  return value
}

const digestOf = (values: unknown) => createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 16)
