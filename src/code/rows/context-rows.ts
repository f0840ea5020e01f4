import type { WriteBy } from '../../resources/writes/hooks.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { idBeforeAll, type RowId } from '../../storage/ids.ts'
import { passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { ScanRequester } from '../../storage/scans/scan.ts'
import { serviceCaller } from '../accounts.ts'
import type { CodeCalls } from '../calls.ts'
import type { CollectionOf } from './collections.ts'
import type { RowCalls } from './row-calls.ts'

/** Work that is done in a transaction. */
export type Unit<T> = (tx: Queryable, by: WriteBy) => Promise<T>

/** Where code runs: in a transaction, or outside, where each write gets its own transaction. */
export type TransactionScope =
  | { tx: Queryable }
  | {
      write: <T>(work: Unit<T>) => Promise<T>
      /** Runs a read that may scan a whole table. Only one such read runs at a time. */
      aside: <T>(read: (requester: ScanRequester) => Promise<T>) => Promise<T>
    }

interface Options {
  db: Database
  collectionOf: CollectionOf
  place: TransactionScope
  by: WriteBy
  calls: CodeCalls
  /** Runs a tracked write in the current transaction or, outside one, in a new transaction. */
  write: <T>(what: string, work: Unit<T>) => Promise<T>
}

type Rights = 'asService' | 'asCaller'

/** Returns the context methods that read and write rows, with the rights of the service or of the caller. */
export function contextRows(options: Options, rights: Rights) {
  const { calls, by, write, place } = options
  const collectionOf = (of: unknown) => {
    if (rights === 'asCaller' && by.caller === serviceCaller) throw new Error('A job or a schedule has no caller')
    return options.collectionOf(of)
  }
  const reading = 'tx' in place ? place.tx : options.db.read
  return {
    find: (of: unknown, id: RowId, { expand = [], lock }: { lock?: boolean; expand?: readonly string[] } = {}) =>
      calls.track('find', async () => {
        refuseLock(place, lock)
        const row = await collectionOf(of)[rights].find(reading, id, by, { lock })
        return (
          row && { ...collectionOf(of)[rights].shown(row, by), ...(await expanded(options, rights, of, row, expand)) }
        )
      }),
    list: (of: unknown, selection: Selection = {}) => pages({ ...options, collectionOf }, rights, of, selection),
    count: (of: unknown, where?: unknown) =>
      calls.track('count', async () => {
        const { served, [rights]: rows } = collectionOf(of)
        const test = await rows.test(where, by)
        if ('tx' in place) return served.rows.countIn(place.tx, test)
        return place.aside((requester) => served.rows.countAside(test, requester))
      }),
    insert: (into: unknown, values: object) =>
      write('insert', async (tx, by) => {
        const rows = collectionOf(into)[rights]
        return rows.shown(await rows.insert(tx, { ...values }, by), by)
      }),
    update: (of: unknown, id: RowId, changes: object) =>
      write('update', async (tx, by) => {
        const rows = collectionOf(of)[rights]
        return rows.shown(await rows.update(tx, id, { ...changes }, by), by)
      }),
    remove: (of: unknown, id: RowId) => write('remove', (tx, by) => collectionOf(of)[rights].remove(tx, id, by)),
  }
}

function refuseLock(place: TransactionScope, lock: boolean | undefined): void {
  if (lock && !('tx' in place)) throw new Error('lock: true needs a transaction: use transaction()')
}

interface Selection {
  where?: unknown
  limit?: number
  lock?: boolean
}

const pageSize = 100

/** Reads the rows that meet a condition, page by page, in the order of their ids. */
async function* pages(options: Options, rights: Rights, of: unknown, { where, limit = Infinity, lock }: Selection) {
  const { collectionOf, calls, by, place } = options
  const { served, [rights]: rows } = collectionOf(of)
  refuseLock(place, lock)
  const test = await calls.track('list', () => rows.test(where, by))
  let after = idBeforeAll[served.declaration.ids]
  for (let left = limit; left > 0; ) {
    const selection = { test, after, limit: Math.min(pageSize, left) }
    const page = await calls.track('list', () => pageOf(options, served, selection, lock))
    for (const row of page) yield rows.shown(row, by)
    const last = page.at(-1)
    if (last === undefined || page.length < selection.limit) return
    after = last.id
    left -= page.length
  }
}

interface PageSelection {
  test: RowTest
  after: RowId
  limit: number
}

/** Reads one page. Outside a transaction, a page with a condition is read as a scan, because no index bounds it. */
async function pageOf(
  { place, db }: Options,
  { rows, totals }: ReturnType<CollectionOf>['served'],
  selection: PageSelection,
  lock = false,
): Promise<Row[]> {
  if (!('tx' in place)) {
    if (selection.test === passesAll) return rows.selectIn(db.read, selection)
    return place.aside((requester) => rows.selectAside(selection, requester))
  }
  if (!lock) return rows.selectIn(place.tx, selection)
  if (totals) {
    const seen = await rows.selectIn(place.tx, selection)
    await totals.lock(
      place.tx,
      seen.map(({ id }) => id),
    )
  }
  return rows.selectIn(place.tx, { ...selection, lock: db.engine.lockRows })
}

/** Returns related rows by relation name; undefined for a row that does not exist or cannot be read. */
async function expanded(
  { collectionOf, place, db, by }: Options,
  rights: Rights,
  of: unknown,
  row: Row,
  names: readonly string[],
) {
  const { references, path } = collectionOf(of).served.declaration
  const members: Record<string, unknown> = {}
  for (const name of names) {
    const reference = references.find((one) => one.name === name)
    if (reference === undefined) throw new Error(`${path} has no relation ${name} to one row`)
    const id = (row[reference.field] ?? null) as RowId | null
    const other: RowCalls = collectionOf({ declaration: { path: reference.path } })[rights]
    const related = id === null ? undefined : await other.find('tx' in place ? place.tx : db.read, id, by)
    members[name] = related && other.shown(related, by)
  }
  return members
}
