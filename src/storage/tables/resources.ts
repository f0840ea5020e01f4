import type { ColumnType } from 'kysely'
import type { Revisioned } from '../rows/revision.ts'

/** Columns that every resource table has in addition to its own fields. */
interface Resource extends Revisioned {
  id: ColumnType<number, never, never>
}

/** Columns named `…Key` contain case-folded text (see `caseFold`), used for searching, sorting and uniqueness. */
export interface UsersTable extends Resource {
  name: string
  nameKey: string
  email: string
  emailKey: string
  address: string | null
  phone: string | null
}

export interface ProductsTable extends Resource {
  name: string
  nameKey: string
  price: number
}

export interface BooksTable extends Resource {
  title: string
  titleKey: string
  author: string
  authorKey: string
  genre: string | null
  genreKey: string | null
}

/** A deleted row of a resource, which can be restored until it expires. */
export interface DeletedRow {
  /** The table that contained the row. */
  tableName: string
  rowId: string
  /** JSON text: the stored values and the columns' kinds, both by column. */
  content: string
  /** The caller that deleted the row: `user:7` or `client:crm`. */
  deletedBy: string
  deletedAt: string
  expiresAt: string
}

/** A file of a row, in the result store. */
export interface StoredFilesTable {
  /** The key in the store. */
  key: string
  /** The table of the row. */
  tableName: string
  rowId: string
  /**
   * `uploading`: not complete; `stored`: a row contains its digest; `kept`: its row is deleted, but can be restored;
   * `unused`: no row refers to it.
   */
  state: 'uploading' | 'stored' | 'kept' | 'unused'
  sizeBytes: number
  /** The SHA-256 of the file, in base64; null during the upload. */
  sha256: string | null
  /** When the file was assigned to its row. */
  storedAt: string | null
  /** 1 if the row had another file in the same second. */
  sharesSecond: number
  /**
   * When the file may be removed or the upload is abandoned; null while a row, or a deleted row that can be restored,
   * refers to the file.
   */
  removeAt: string | null
}
