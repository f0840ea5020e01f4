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
  /** JSON text: the values and kinds by column. */
  content: string
  /** The caller of the deletion: `user:7` or `client:crm`. */
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
  /** In base64; null during the upload. */
  sha256: string | null
  /** When the row got the file. */
  storedAt: string | null
  /** 1 if the row had another file in the same second. */
  sharesSecond: number
  /** When the store may remove it; null while a row, or a row that can be restored, refers to it. */
  removeAt: string | null
}
