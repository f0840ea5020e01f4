import type { FastifyRequest } from 'fastify'
import type { FormPart } from '../../http/multipart.ts'
import type { Queryable } from '../../storage/database.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { type FileOwner, placeFile, releaseFile } from '../../storage/stored-files.ts'
import type { Served } from '../declaration.ts'
import type { RowRequest } from '../writes/change.ts'
import type { Insert, Values } from '../writes/row-writes.ts'
import { fileIn } from './change-file.ts'
import type { FileValue } from './file-field.ts'
import type { Upload } from './upload.ts'

/** A file of a form, already in the store. */
export interface ReceivedFile {
  field: string
  value: FileValue
  upload: Upload
  /** True once a transaction has assigned the file to a row; the transaction may still fail. */
  isPlaced: boolean
}

/** The multipart/form-data body of a request; its part `json` is `request.body`. */
export interface MultipartForm {
  parts: AsyncGenerator<FormPart, void>
  /** The form's first part if it is a file; otherwise undefined. */
  first: FormPart | undefined
  received: ReceivedFile[]
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set if the body is a form. Its files are in the store before the handler runs. */
    form?: MultipartForm
  }
}

/** Returns the values of the file fields for the files in a request. */
export const formValues = ({ form }: Pick<FastifyRequest, 'form'>): Record<string, FileValue> =>
  Object.fromEntries((form?.received ?? []).map(({ field, value }) => [field, value]))

/** The row that a form's files are assigned to. */
interface Placement {
  values: Values
  before?: Row | undefined
  owner: FileOwner
  now: string
}

/**
 * Assigns a form's files to a row and releases the files that they replace. Skips a field if a hook has changed its
 * value.
 */
async function placeFiles(
  form: MultipartForm,
  tx: Queryable,
  { values, before, owner, now }: Placement,
): Promise<void> {
  for (const file of form.received) {
    const { field, upload } = file
    const { key, sizeBytes, sha256 } = upload
    if ((values[field] as FileValue | null | undefined)?.sha256 !== sha256) continue
    await placeFile(tx, { key, sizeBytes, sha256 }, owner, now)
    file.isPlaced = true
    const previous = before && fileIn(before, field)
    if (previous) await releaseFile(tx, owner, previous.sha256, Date.parse(now))
  }
}

/** Wraps `insert` so that it also assigns the request's files to the new row. */
export function insertWithFiles(
  { declaration: { table } }: Served,
  { form }: Pick<FastifyRequest, 'form'>,
  { tx, now }: { tx: Queryable; now: string },
  insert: Insert,
): Insert {
  if (!form) return insert
  return async (values) => {
    const inserted = await insert(values)
    await placeFiles(form, tx, { values, owner: { table, id: inserted.row.id }, now })
    return inserted
  }
}

/** The files with which a request changes a row. */
export interface FileChange {
  /** Returns the new values of the file fields; `row` is the row before the change. */
  values: (row: Row) => Values
  /** Assigns the files to the row; runs in the transaction after the row has been changed. */
  place: (tx: Queryable, now: string) => Promise<void>
}

/** Returns the files in a request that changes a row; undefined if the request is not a form. */
export function fileChange({ declaration: { table } }: Served, request: RowRequest): FileChange | undefined {
  const { form } = request
  if (!form) return undefined
  const values = formValues(request)
  const owner = { table, id: request.params.id }
  let before: Row | undefined
  return {
    values: (row) => {
      before = row
      return values
    },
    place: (tx, now) => placeFiles(form, tx, { values, before, owner, now }),
  }
}
