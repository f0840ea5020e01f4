// Updates stored sums and counts in the same transaction as the rows that they cover.

import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { lockRows } from '../../storage/repeating-writes.ts'
import { wideInteger } from '../../storage/rows/column-codec.ts'
import { integerRows } from '../../storage/rows/integer-rows.ts'
import type { Rows } from '../../storage/rows/rows.ts'
import { rowFacts } from '../access/row-facts.ts'
import { eventPublisher } from '../change-events.ts'
import type { CollectionOptions, Declaration } from '../declaration.ts'
import { idTypes } from '../id-types.ts'
import { resourceRows } from '../resource-rows.ts'
import { type Announce, publish, type RowHooks } from '../writes/hooks.ts'
import { totalValue } from './computed-fields.ts'
import type { DeclaredTotal } from './options.ts'
import { maxTotal, type TotalsTarget, totalsOver } from './total-sources.ts'
import type { Settle, TotalsUpdater } from './updater.ts'

type Values = Readonly<Record<string, unknown>>

/** A resource that has totals. */
interface Target extends TotalsTarget {
  rows: Rows
  announce: Announce
  hooks: RowHooks | undefined
}

/** The amounts that a write adds to totals: by target, row id and total. */
type Tally = Map<Target, Map<RowId, Map<DeclaredTotal, bigint>>>

type Options = Pick<CollectionOptions, 'db' | 'queue' | 'random' | 'zone' | 'code'>

function targetOf(target: TotalsTarget, all: readonly Declaration[], options: Options): Target {
  const { declaration } = target
  return {
    ...target,
    rows: resourceRows(options.db, declaration),
    announce: eventPublisher(options, declaration, rowFacts(declaration, all)),
    hooks: options.code?.hooksOf(declaration.path),
  }
}

/** Returns the updater of the sums and counts over a resource's rows; undefined if there are none. */
export function totalsUpdater(
  declaration: Declaration,
  all: readonly Declaration[],
  options: Options,
): TotalsUpdater | undefined {
  const over = totalsOver(declaration, all)
  if (over.length === 0) return undefined
  const targets = over.map((target) => targetOf(target, all, options))
  const inOrder = targets.toSorted((one, other) => (one.declaration.table < other.declaration.table ? -1 : 1))
  const { engine } = options.db
  const fields = [...new Set(targets.flatMap(fieldsOf))]
  const of = { table: declaration.table, idType: declaration.ids, columns: declaration.columns, fields }
  // To avoid deadlocks, the rows with totals are locked first, in a fixed order, and then the written rows. Deletions
  // use the same order.
  const lockShown = async (tx: Queryable, written: readonly Values[]) => {
    for (const target of inOrder) {
      const ids = written.map((values) => idIn(values, target)).filter((id) => id !== null)
      const { table, ids: idType } = target.declaration
      await lockRows(tx, engine, { table, idType, ids: [...new Set(ids)] })
    }
  }
  const settle = (tx: Queryable, before: readonly Values[], after: readonly Values[]): Settle => {
    const tally: Tally = new Map()
    for (const values of before) count(tally, targets, values, -1n)
    for (const values of after) count(tally, targets, values, 1n)
    return (by, removal) => store(tx, tally, by, removal, engine)
  }
  const seen = (tx: Queryable, ids: readonly RowId[]) => integerRows(tx, engine, { ...of, ids })
  return {
    lock: async (tx, ids, values = {}) => lockShown(tx, [...(await seen(tx, ids)), values]),
    created: async (tx, values) => {
      await lockShown(tx, [values])
      return settle(tx, [], [values])
    },
    changed: async (tx, id, values, precondition) => {
      await lockShown(tx, [...(await seen(tx, [id])), values])
      const lock = engine.lockRows
      const [before] = await integerRows(tx, engine, { ...of, ids: [id], lock, precondition })
      if (before === undefined) return undefined
      // The reference may have changed before this transaction locked the row.
      await lockShown(tx, [before])
      return settle(tx, [before], [{ ...before, ...present(values) }])
    },
    removed: async (tx, ids, precondition) => {
      await lockShown(tx, await seen(tx, ids))
      const before = await integerRows(tx, engine, { ...of, ids, lock: engine.lockForRemoval, precondition })
      if (before.length === 0) return undefined
      await lockShown(tx, before)
      return settle(tx, before, [])
    },
  }
}

/** Returns the fields of a row that affect the totals of a target. */
const fieldsOf = ({ reference, totals }: TotalsTarget): string[] => [
  reference,
  ...totals.flatMap(({ field }) => (field === null ? [] : [field])),
]

/** Returns the values that a write sets. Omits undefined values, which mean that the field keeps its value. */
const present = (values: Values) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))

/** Returns the id of the row with the totals; null if there is none. */
function idIn(values: Values, { declaration, reference }: TotalsTarget): RowId | null {
  const id = values[reference] ?? null
  return id === null ? null : idTypes[declaration.ids].fromText(String(id))
}

function count(tally: Tally, targets: readonly Target[], values: Values, sign: 1n | -1n): void {
  for (const target of targets) {
    const id = idIn(values, target)
    if (id === null) continue
    const byId = tally.get(target) ?? new Map<RowId, Map<DeclaredTotal, bigint>>()
    const added = byId.get(id) ?? new Map<DeclaredTotal, bigint>()
    for (const total of target.totals) {
      const amount = total.field === null ? 1n : wideInteger(String(values[total.field] ?? 0))
      added.set(total, (added.get(total) ?? 0n) + sign * amount)
    }
    tally.set(target, byId.set(id, added))
  }
}

/** Adds the amounts of a write to the stored totals and returns the updated rows. */
async function store(
  tx: Queryable,
  tally: Tally,
  by: Parameters<Settle>[0],
  removal: Parameters<Settle>[1],
  engine: Options['db']['engine'],
) {
  const stored: Awaited<ReturnType<Settle>> = []
  for (const [target, byId] of tally) {
    const { table, ids: idType } = target.declaration
    const ids = [...byId.keys()].filter((id) => !removal?.isGone({ table, id }))
    const fields = target.totals.map(({ name }) => name)
    for (const shown of await integerRows(tx, engine, { table, ids, idType, fields })) {
      const sums = target.totals.map((total) => {
        const sum = BigInt(shown[total.name] ?? 0) + (byId.get(shown.id)?.get(total) ?? 0n)
        return [total.name, fitting(target, total, shown.id, sum)]
      })
      const { hooks, rows } = target
      const before = hooks?.changed && (await rows.readIn(tx, shown.id))
      const changed = await rows.update(tx, shown.id, Object.fromEntries(sums), {}, by.now)
      if (changed === undefined) continue
      const announce = () => publish(target.announce, tx, { table, change: 'updated', ...changed }, by)
      if (removal) removal.updated({ table, id: shown.id }, announce)
      else await announce()
      if (before) await hooks?.changed?.(tx, before, changed.row, by)
      stored.push({ table, id: shown.id, row: changed.row })
    }
  }
  return stored
}

/** Converts a total to its value in representations. Throws 422 if it is too large for its column. */
function fitting({ declaration, reference }: Target, { name, field, schema }: DeclaredTotal, id: RowId, sum: bigint) {
  const limit = maxTotal(schema)
  if (sum <= limit && sum >= -limit) return totalValue(schema, sum)
  const message = `makes ${name} of the ${declaration.noun} ${id} larger than ${totalValue(schema, limit)}`
  throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', {
    errors: [{ field: field ?? reference, message }],
  })
}
