// Records of the files in the result store. A file is uploaded, then belongs to a row, and is finally removed. Its
// record is created before the file and deleted after it, so that a crash leaves no file without a record.

import { sql } from 'kysely'
import type { Database, Queryable } from './database.ts'
import { iso, type RowId } from './ids.ts'
import type { StoredFilesTable } from './tables/resources.ts'

/** An upload is abandoned if its record has not been extended for this long. */
const uploadMs = 3_600_000
/** How long a file stays in the store after its row releases it, for downloads and backups that are still running. */
export const unusedMs = 3_600_000

/** The row that a file belongs to. */
export interface FileOwner {
  table: string
  id: RowId
}

/** Adds the record of an upload; call it before the file is created. */
export const addUpload = (
  { write }: Database,
  key: string,
  { table, id }: FileOwner,
  nowMs: number,
): Promise<unknown> =>
  write((tx) =>
    tx
      .insertInto('storedFiles')
      .values({
        ...{ key, tableName: table, rowId: String(id), state: 'uploading' },
        ...{ sizeBytes: 0, sha256: null, storedAt: null, sharesSecond: 0, removeAt: iso(nowMs + uploadMs) },
      })
      .execute(),
  )

/** Extends the deadline of an upload in progress. Returns false if the upload was abandoned. */
export async function extendUpload({ write }: Database, key: string, nowMs: number): Promise<boolean> {
  const extended = await write((tx) =>
    tx
      .updateTable('storedFiles')
      .set({ removeAt: iso(nowMs + uploadMs) })
      .where('key', '=', key)
      .where('state', '=', 'uploading')
      .executeTakeFirst(),
  )
  return Number(extended.numUpdatedRows) === 1
}

/** Abandons an upload. Returns false if the file belongs to a row, or once did. */
export async function abandonUpload({ write }: Database, key: string, nowMs: number): Promise<boolean> {
  const found = await write(async (tx) => {
    await ended(tx, nowMs).where('key', '=', key).execute()
    return tx.selectFrom('storedFiles').select('storedAt').where('key', '=', key).executeTakeFirst()
  })
  // If a sweep has abandoned the upload, the record may already be gone.
  return (found?.storedAt ?? null) === null
}

const ended = (tx: Queryable, nowMs: number) =>
  tx
    .updateTable('storedFiles')
    .set({ state: 'unused', removeAt: iso(nowMs) })
    .where('state', '=', 'uploading')

/** Removes the records of files that the store no longer contains. */
export const forgetFiles = ({ write }: Database, keys: readonly string[]): Promise<unknown> =>
  write((tx) => tx.deleteFrom('storedFiles').where('key', 'in', keys).execute())

/** A complete upload. */
export interface Uploaded {
  key: string
  sizeBytes: number
  sha256: string
}

/**
 * Makes an upload the file of a row, in the transaction that writes the file's digest to the row. Throws if the upload
 * was abandoned.
 */
export async function placeFile(tx: Queryable, { key, ...file }: Uploaded, owner: FileOwner, now: string) {
  const second = `${now.slice(0, 19)}.000Z`
  const earlier = await filesOf(tx, owner).select('key').where('storedAt', '>=', second).executeTakeFirst()
  const placed = await tx
    .updateTable('storedFiles')
    .set({ ...file, tableName: owner.table, rowId: String(owner.id) })
    .set({ state: 'stored', storedAt: now, sharesSecond: earlier ? 1 : 0, removeAt: null })
    .where('key', '=', key)
    .where('state', '=', 'uploading')
    .executeTakeFirst()
  if (Number(placed.numUpdatedRows) !== 1) throw new Error(`The upload ${key} was abandoned`)
}

const filesOf = (db: Queryable, { table, id }: FileOwner) =>
  db.selectFrom('storedFiles').where('tableName', '=', table).where('rowId', '=', String(id))

/** Returns the file of a row with this digest (base64); files with equal content are interchangeable. */
export const findFile = (db: Queryable, owner: FileOwner, sha256: string): Promise<StoredFilesTable | undefined> =>
  filesOf(db, owner).selectAll().where('sha256', '=', sha256).limit(1).executeTakeFirst()

/** Releases one of a row's files with this digest, in the transaction that removes the digest from the row. */
export async function releaseFile(tx: Queryable, owner: FileOwner, sha256: string, nowMs: number): Promise<void> {
  const stored = filesOf(tx, owner).select('key').where('sha256', '=', sha256).where('state', '=', 'stored').limit(1)
  await tx.updateTable('storedFiles').set(unused(nowMs)).where('key', 'in', stored).execute()
}

const unused = (nowMs: number) => ({ state: 'unused', removeAt: iso(nowMs + unusedMs) }) as const

/** The files of several rows, restricted to one state. */
interface FilesOfRows {
  table: string
  ids: readonly RowId[]
  state: 'stored' | 'kept'
}

const ofRows = (tx: Queryable, { table, ids, state }: FilesOfRows) =>
  tx
    .updateTable('storedFiles')
    .where('tableName', '=', table)
    .where('rowId', 'in', ids.map(String))
    .where('state', '=', state)

/** Releases the files of deleted rows, in the transaction that deletes them for good. */
export const releaseFiles = (tx: Queryable, files: FilesOfRows, nowMs: number): Promise<unknown> =>
  ofRows(tx, files).set(unused(nowMs)).execute()

/** Keeps the files of deleted rows that can be restored. Releases the files of older deleted rows with the same ids. */
export async function keepFiles(tx: Queryable, table: string, ids: readonly RowId[], nowMs: number): Promise<void> {
  await releaseFiles(tx, { table, ids, state: 'kept' }, nowMs)
  await ofRows(tx, { table, ids, state: 'stored' }).set({ state: 'kept' }).execute()
}

/** Gives a restored row the files that it had before its deletion. */
export const restoreFiles = (tx: Queryable, { table, id }: FileOwner): Promise<unknown> =>
  ofRows(tx, { table, ids: [id], state: 'kept' })
    .set({ state: 'stored' })
    .execute()

/** Releases all files of a table, in the transaction that drops the table. The files can be removed at once. */
export const releaseTable = (tx: Queryable, table: string): Promise<unknown> =>
  tx
    .updateTable('storedFiles')
    .set({ state: 'unused', removeAt: iso(0) })
    .where('tableName', '=', table)
    .where('state', 'in', ['stored', 'kept'])
    .execute()

/**
 * Abandons uploads that were not extended in time. With `all`, abandons every upload, which is safe only if no other
 * process uses the database.
 */
export const abandonUploads = ({ write }: Database, nowMs: number, all = false): Promise<unknown> =>
  write((tx) =>
    ended(tx, nowMs)
      .$if(!all, (uploads) => uploads.where('removeAt', '<=', iso(nowMs)))
      .execute(),
  )

/** Returns the next files to remove, oldest first; `isUploaded` is false for files that never belonged to a row. */
export const removableFiles = (db: Database, nowMs: number, limit: number) =>
  db.read
    .selectFrom('storedFiles')
    .select(['key', sql<boolean>`stored_at is not null`.as('isUploaded')])
    .where('state', '=', 'unused')
    .where('removeAt', '<=', iso(nowMs))
    .orderBy('removeAt')
    .orderBy('key')
    .limit(limit)
    .execute()

/** Postpones the removal of files that the store failed to remove. */
export const postponeRemoval = ({ write }: Database, keys: readonly string[], nowMs: number): Promise<unknown> =>
  write((tx) => tx.updateTable('storedFiles').set(unused(nowMs)).where('key', 'in', keys).execute())
