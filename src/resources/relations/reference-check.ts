import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { existsLocked, lockedRow } from '../../storage/rows/related-rows.ts'
import { passesAll } from '../../storage/rows/row-test.ts'
import { reachOf } from '../access/enforce.ts'
import type { Reach } from '../access/rules.ts'
import type { CollectionOptions, Declaration } from '../declaration.ts'
import type { Reference, ReferenceCheck } from './reference.ts'

type Values = Readonly<Record<string, unknown>>

/**
 * Returns a collection's reference check; undefined if it has no references. `all` contains the service's collections.
 */
export function referenceCheck(
  options: Pick<CollectionOptions, 'db' | 'factsOf' | 'now' | 'zone'>,
  { table, columns, references }: Pick<Declaration, 'table' | 'columns' | 'references'>,
  all: readonly Declaration[],
): ReferenceCheck | undefined {
  if (references.length === 0) return undefined
  const { engine } = options.db
  const fields = references.map(({ field }) => field)
  const targets = all.filter(({ path }) => references.some((reference) => reference.path === path))
  const reach = reachOf(targets, options)
  const check = async (tx: Queryable, values: Values, before: Values, within: Reach = () => passesAll) => {
    const refused: Reference[] = []
    for (const reference of references) {
      const id = values[reference.field] ?? null
      if (id === null || id === before[reference.field]) continue
      const referred = { table: reference.table, id: id as RowId, test: within(reference) }
      if (!(await existsLocked(tx, engine, referred))) refused.push(reference)
    }
    if (refused.length > 0) throw missing(refused, values)
  }
  return {
    reachOf: (caller) => reach?.(caller),
    created: (tx, values, within) => check(tx, values, {}, within),
    changed: async (tx, { id, precondition }, values, within) => {
      if (fields.every((field) => (values[field] ?? null) === null)) return true
      const before = await lockedRow(tx, { table, fields, columns, id, precondition, lock: engine.lockRows })
      if (before === undefined) return false
      await check(tx, values, before, within)
      return true
    },
  }
}

function missing(refused: readonly Reference[], values: Values): Problem {
  const errors = refused.map(({ field, noun }) => ({
    field,
    message: `refers to no ${noun}: there is no ${values[field]}`,
  }))
  return new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
}
