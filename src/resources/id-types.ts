import { type TObject, type TSchema, Type } from 'typebox'
import { Uuid, uuidExample } from '../http/uuid.ts'
import type { CellType } from '../storage/engine.ts'
import type { IdType, RowId } from '../storage/ids.ts'
import type { RelatedTerm } from '../storage/rows/page-order.ts'
import type { TestedColumn } from '../storage/rows/row-test.ts'
import type { ColumnKind } from './column-types.ts'

/** The properties of an id type. */
interface IdTypeEntry {
  /**
   * Returns the schema of an id in responses, path parameters and references. A schema with a description also has an
   * example.
   */
  schema: (description?: string) => TSchema
  /** The schema of the id in a deletion event. */
  eventSchema: object
  example: RowId
  /** The column type of ids in conditions. */
  kind: ColumnKind
  /** The id column, for conditions. */
  on: TestedColumn
  /** The type of ids in reports. */
  cell: CellType
  /** The type of ids when they are sort values. */
  sort: RelatedTerm['type']
  /**
   * Parses the id at the end of a path, to look up a cached row. If the text is not a canonical id, returns undefined
   * or an id that no row has.
   */
  fromPath: (path: string, from: number) => RowId | undefined
  /** Converts an id from the text that a database query returns. */
  fromText: (text: string) => RowId
  /** Returns the id of a new row; undefined if the database generates it. */
  assign: (newUuid: () => string) => RowId | undefined
}

const [digit0, digit9, maxDigits] = [0x30, 0x39, 10]

/**
 * Parses an integer without leading zeros at the end of a string. Allocates no strings, because it runs on each read.
 */
function integerAt(text: string, from: number): number | undefined {
  if (text.length === from || text.length - from > maxDigits || text.charCodeAt(from) === digit0) return undefined
  let value = 0
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < digit0 || code > digit9) return undefined
    value = value * 10 + code - digit0
  }
  return value
}

export const idTypes: Readonly<Record<IdType, IdTypeEntry>> = {
  integer: {
    schema: (description) =>
      Type.Integer({ minimum: 1, ...(description !== undefined && { description, examples: [1] }) }),
    eventSchema: { type: 'integer' },
    example: 1,
    kind: 'integer',
    on: { field: 'id', column: 'id', isNarrow: true },
    cell: 'integer',
    sort: 'id',
    fromPath: integerAt,
    fromText: Number,
    assign: () => undefined,
  },
  uuid: {
    schema: Uuid,
    eventSchema: { type: 'string', format: 'uuid' },
    example: uuidExample,
    kind: 'uuid',
    on: { field: 'id', column: 'id', isUuid: true },
    cell: 'uuid',
    sort: 'uuid',
    fromPath: (path, from) => path.slice(from),
    fromText: (text) => text,
    assign: (newUuid) => newUuid(),
  },
}

/** Returns the schema of the path parameter that identifies a row. */
export const idParams = (ids: IdType): TObject => Type.Object({ id: idTypes[ids].schema('Assigned by the service') })
