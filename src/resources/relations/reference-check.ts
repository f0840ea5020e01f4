import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { existsLocked, lockedRow } from '../../storage/rows/related-rows.ts'
import type { Declaration } from '../declaration.ts'
import type { Reference, ReferenceCheck } from './reference.ts'

type Values = Readonly<Record<string, unknown>>

/** The check for a collection; undefined if it has no references. */
export function referenceCheck(
  { engine }: Pick<Database, 'engine'>,
  { table, references }: Pick<Declaration, 'table' | 'references'>,
): ReferenceCheck | undefined {
  if (references.length === 0) return undefined
  const fields = references.map(({ field }) => field)
  const check = async (tx: Queryable, values: Values, before: Values) => {
    const refused: Reference[] = []
    for (const reference of references) {
      const id = values[reference.field] ?? null
      if (id === null || id === before[reference.field]) continue
      if (!(await isReferable(tx, reference, id as number))) refused.push(reference)
    }
    if (refused.length > 0) throw missing(refused, values)
  }
  // The only place that decides whether a caller may refer to a row: to every one that exists.
  const isReferable = (tx: Queryable, { table }: Reference, id: number) => existsLocked(tx, engine, table, id)
  return {
    created: (tx, values) => check(tx, values, {}),
    changed: async (tx, id, values, precondition) => {
      if (fields.every((field) => (values[field] ?? null) === null)) return true
      const before = await lockedRow(tx, { table, fields, id, precondition, lock: engine.lockRows })
      if (before === undefined) return false
      await check(tx, values, before)
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
