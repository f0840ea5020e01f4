import type { RawBuilder } from 'kysely'
import type { Database, PreparedStatement, Queryable } from '../database.ts'
import { idOrNone, type RowId } from '../ids.ts'
import { hasId, type RowPrecondition, wherePrecondition } from './precondition.ts'
import { nextRevision, secondIn } from './revision.ts'

/** A change to one row: the new values by column, and the condition that the row must meet. */
interface RowUpdate {
  id: RowId
  /** Columns with an undefined value stay unchanged. */
  cells: Readonly<Record<string, unknown>>
  precondition: RowPrecondition
  now: string
  /** Used only to compile a statement (see `indexed`): the index of `now` truncated to the second. */
  second?: string
}

/** The table that is updated, and the expressions that its updates return. */
export interface Returned {
  table: string
  columns: readonly unknown[]
  subscribed: RawBuilder<number>
}

type ReturnedRow = Record<string, unknown>

interface Statement {
  prepared: PreparedStatement<ReturnedRow>
  /** For each parameter of the statement, the index of its value in the result of `valuesOf`. */
  positions: readonly number[]
}

/** More than the usual requests need. Limited, because PostgreSQL keeps each statement prepared. */
const maxStatements = 50

/**
 * Returns the function that updates one row. Compiling an UPDATE takes longer than running it, so the statement for
 * each combination of columns is compiled only once, unless the precondition has members other than `matches`.
 */
export function updater(db: Database, returned: Returned) {
  const statements = new Map<string, Statement>()
  const plain = db.read.withoutPlugins()
  const statementOf = (update: RowUpdate): Statement | undefined => {
    const { passes, differs, unmodifiedSince } = update.precondition
    if (passes !== undefined || differs !== undefined || unmodifiedSince !== undefined) return undefined
    const shape = `${columnsOf(update).join()} ${matchesOf(update)?.length}`
    const known = statements.get(shape)
    if (known || statements.size >= maxStatements) return known
    const compiled = updateOf(plain, returned, indexed(update)).compile()
    const statement = { prepared: db.prepare<ReturnedRow>({ compile: () => compiled }), positions: compiled.parameters }
    statements.set(shape, statement as Statement)
    return statement as Statement
  }
  return async (tx: Queryable, update: RowUpdate): Promise<ReturnedRow | undefined> => {
    const statement = statementOf(update)
    if (!statement) return updateOf(tx.withoutPlugins(), returned, update).executeTakeFirst()
    const values = valuesOf(update)
    const bound = statement.positions.map((position) => values[position])
    return (await statement.prepared.in(tx, bound)).rows[0]
  }
}

function updateOf(db: Queryable, { table, columns, subscribed }: Returned, update: RowUpdate) {
  const { id, cells, precondition, now, second } = update
  const { revision, sharesSecond, updatedAt } = nextRevision(table, now, second)
  const set = { ...cells, revision, shares_second: sharesSecond, updated_at: updatedAt }
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const query = db.updateTable(table as 'products').set(set as never)
  return wherePrecondition(query.where(hasId(id)), precondition)
    .returning(columns as never)
    .returning(subscribed.as('subscribed'))
}

const columnsOf = ({ cells }: RowUpdate) => Object.keys(cells).filter((column) => cells[column] !== undefined)

/**
 * Returns the revisions that `matches` allows; undefined if it allows any. If it allows none, returns -1, which no row
 * has.
 */
function matchesOf({ precondition: { matches } }: RowUpdate): readonly number[] | undefined {
  if (matches === undefined || matches === 'any') return undefined
  return matches.length > 0 ? matches : [-1]
}

/** Returns the parameter values; `indexed` contains their indexes. */
function valuesOf(update: RowUpdate): unknown[] {
  const { id, cells, now } = update
  const values: unknown[] = [idOrNone(id), now, secondIn(now)]
  for (const column of columnsOf(update)) values.push(cells[column])
  return values.concat(matchesOf(update) ?? [])
}

/**
 * Returns an update in which each value is replaced by its index in the array from `valuesOf`. The statement is
 * compiled from it.
 */
function indexed(update: RowUpdate): RowUpdate {
  const columns = columnsOf(update)
  const matches = matchesOf(update)?.map((_, at) => 3 + columns.length + at)
  return {
    ...{ id: 0, now: 1 as never, second: 2 as never },
    cells: Object.fromEntries(columns.map((column, at) => [column, 3 + at])),
    precondition: matches ? { matches } : {},
  }
}
