import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { TObject } from 'typebox'
import type { Caller } from '../http/policies/authenticate.ts'
import type { inputValidator } from '../http/policies/body-parsing.ts'
import type { Versioned } from '../http/policies/conditional.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database } from '../storage/database.ts'
import type { IdType, RandomBytes, RowId } from '../storage/ids.ts'
import type { ColumnNames } from '../storage/rows/column-names.ts'
import type { Row, Rows } from '../storage/rows/rows.ts'
import type { AccessOf, CallerFacts, ClaimsOf, DeclaredAccess, Reach } from './access/rules.ts'
import type { ColumnKind } from './column-types.ts'
import type { DeclaredComputed, Shown } from './computed/options.ts'
import type { ServedComputed } from './computed/updater.ts'
import type { CheckedValues } from './constraints/creation.ts'
import type { Creator } from './constraints/creator.ts'
import type { LockCheck } from './constraints/lock-check.ts'
import type { DeclaredLock } from './constraints/locked.ts'
import type { Rule } from './constraints/rules.ts'
import type { Writers } from './constraints/writers.ts'
import type { FileField, FileStorage } from './files/file-field.ts'
import type { MigrateOptions } from './migration/options.ts'
import type { Representations } from './reads/representation-cache.ts'
import type { Expand, Reference, ReferenceCheck, Remove } from './relations/reference.ts'
import type { ChangeFeed } from './streams/feed-member.ts'
import type { ViewOf } from './views/field-names.ts'
import type { Guard } from './writes/guard.ts'
import type { Announce, AuthorCode, RowHooks } from './writes/hooks.ts'

export type CollectionOperation = 'list' | 'create' | 'read' | 'replace' | 'patch' | 'remove'

/** A link of a representation; `href` is relative to the API version. */
export interface Link {
  href: string
  method?: string
}

/** Validated options of `collection()`, with the defaults filled in. */
export interface Declaration<B extends TObject = TObject> extends Shown {
  path: `/${string}`
  /** The path without its leading slash. */
  name: string
  noun: string
  table: string
  ids: IdType
  /** Column names that are not derived from field names: `columns` as in the database, `overlay` as in the options. */
  columns?: ColumnNames
  overlay?: ColumnNames
  migrate?: MigrateOptions
  operations: readonly CollectionOperation[]
  body: B
  /** The body that clients send: fields with a default are optional. */
  input: TObject
  /** The body of a POST: the input without files and the fields of `set`; the fields of `defaults` are optional. */
  creation: TObject
  /** The body of a PUT: `patchable`, with write-only fields, immutable fields and the fields of `defaults` optional. */
  replacement: TObject
  /** The input without file fields and the fields of `set`, which bodies cannot change. */
  patchable: TObject
  /** The column type of each field. */
  kinds: Readonly<Record<string, ColumnKind>>
  computed: DeclaredComputed
  publicRead: boolean
  filters: readonly string[]
  ranges: readonly string[]
  search: readonly string[]
  sorts: readonly string[]
  /** Fields that are unique on their own, and tuples of fields that are unique together. */
  unique: readonly string[]
  tuples: readonly (readonly string[])[]
  /** The fields that refer to rows of this or another collection. */
  references: readonly Reference[]
  /** Text fields with a case-folded companion column. */
  folded: readonly string[]
  /** Optional folded sort fields: in rows without a value, their companion column is an empty string, not null. */
  blank: readonly string[]
  listed?: readonly string[]
  hides?: { fields: readonly string[]; unless: (caller: Caller, id: RowId) => boolean }
  /** Computes a caller's claims; returns none without `plinth({ claims })`. */
  claims: ClaimsOf<object>
  /** The users declared in the same `plinth()`, if any. The service must be given the same users. */
  users?: object | undefined
  /** The access rules; without them, only scopes restrict access. */
  access?: DeclaredAccess
  /** Which rows cannot be changed or deleted. */
  locked?: DeclaredLock
  /** How long deleted rows can be restored; by default, they cannot. */
  keepDeletedMs?: number
  /** Who can write which fields; by default, everyone who can write the row can write all fields. */
  writers?: Writers | undefined
  writeOnly: readonly string[]
  immutable: readonly string[]
  files: readonly FileField[]
  rules: readonly Rule[]
  set: CheckedValues
  defaults: CheckedValues
  /** Fields that lists, reports and events never contain: write-only fields, and fields hidden from some callers. */
  concealed: readonly string[]
  /** Every scope with its description, and the scope required for reading (null if reading is public). */
  scopes: Readonly<Record<string, string>>
  readScope: string | null
  links?: (row: Row) => Record<string, Link>
  /** For a view: its collection and the mapping of names. Conditions, links and events use the collection's names. */
  view?: ViewOf<Declaration>
}

export interface CollectionOptions {
  db: Database
  queue: Queue
  now: () => number
  random: RandomBytes
  /** Returns a new id for a row (RFC 9562 §5.7). */
  newUuid: () => string
  publicRead: boolean
  requireIfMatch: boolean
  /** The time zone of `'today'`; default: UTC. */
  zone?: string | undefined
  guard?: Guard | undefined
  files?: FileStorage | undefined
  /** The author's code (hooks, actions and jobs); undefined if the service has none. */
  code?: AuthorCode | undefined
  /** `all`: the service's resources in declaration order; `served`: those in this version. Default: only this one. */
  related?: Related | undefined
  feed?: ChangeFeed | undefined
  /** Reads the facts about a caller that access rules use. */
  factsOf: (caller: Caller) => Promise<CallerFacts>
}

/** A relation from a row to the row that it refers to, or to the rows that refer to it. */
export interface Relation {
  name: string
  /** The collection of the related rows. */
  declaration: Declaration
  /** The reference field. It belongs to the related rows if `isMany`, otherwise to the row itself. */
  field: string
  isMany: boolean
}

export type Related = Readonly<Record<'all' | 'served', readonly Declaration[]>>

/** A declared resource, and the plugin that serves it under a version prefix. */
export interface Collection<
  B extends TObject = TObject,
  Computed extends string = string,
  Given extends string = string,
  Derived extends string = string,
  Ids extends IdType = IdType,
> {
  declaration: Declaration<B>
  /** Exists only for type inference; never set. */
  '~names'?: { computed: Computed; given: Given; derived: Derived; ids: Ids }
  plugin: FastifyPluginAsync<CollectionOptions>
}

/** Context of a collection's routes. */
export interface Served extends CollectionOptions, ServedComputed {
  declaration: Declaration
  rows: Rows
  prefix: string
  fieldNames: string[]
  /** Functions that normalize values before they are stored, by field. */
  normalizers: [field: string, normalize: (value: unknown) => unknown][]
  /** Cached representations of single rows. */
  representations: Representations
  /** Fills in the defaults of absent fields. */
  complete: (body: Record<string, unknown>) => Record<string, unknown>
  creator: Creator
  /** Validates a complete body. */
  check: ReturnType<typeof inputValidator>
  /** Converts the decimals of a body or patch to their exact form, in place; undefined if the resource has none. */
  readDecimals: ((body: unknown) => void) | undefined
  /** Returns the representation of a row for the caller of this request. */
  serialize: (row: Row, request: FastifyRequest) => Versioned
  /** Evaluates the access rules for a caller; undefined if there are none. */
  accessOf: AccessOf | undefined
  /** Returns the function that evaluates a collection's access rules; undefined if it has none. */
  accessTo: (declaration: Declaration) => AccessOf | undefined
  announce: Announce
  /** The author's hooks, adapted to this resource's field names; undefined if there are none. */
  hooks: RowHooks | undefined
  /** Checks references; undefined if the resource has none. */
  references: ReferenceCheck | undefined
  remove: Remove
  /** Refuses changes to locked rows; undefined if rows are never locked. */
  lock: LockCheck | undefined
  /** True if deleting a row may also delete or change locked rows. */
  meetsLocks: boolean
  /** Returns the tests for referring rows that the caller can read; undefined if every caller can read all of them. */
  referrers: ((caller: Caller) => Promise<Reach>) | undefined
  /** True if rows of this or another resource may refer to this resource's rows. */
  isReferred: boolean
  /** The relations to resources that this version serves. */
  relations: readonly Relation[]
  /** Parses an `expand` parameter. Throws INVALID_INPUT, 401 or 403. */
  expand: (text: string, request: FastifyRequest, reply: FastifyReply) => Expand
}
