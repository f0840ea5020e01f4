import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { TObject } from 'typebox'
import type { Caller } from '../http/policies/authenticate.ts'
import type { inputValidator } from '../http/policies/body-parsing.ts'
import type { Revised } from '../http/policies/conditional.ts'
import type { ProblemCode } from '../http/problems/problem.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { RandomBytes } from '../storage/ids.ts'
import type { ColumnKind } from '../storage/resource-tables/resource-columns.ts'
import type { Row, Rows } from '../storage/rows/rows.ts'
import type { Representations } from './representation-cache.ts'

export type Operation = 'list' | 'create' | 'read' | 'replace' | 'patch' | 'remove'

/** A link of a representation; `href` is relative to the API version. */
export interface Link {
  href: string
  method?: string
}

/** The names of a body's fields. */
type FieldOf<B extends TObject> = Extract<keyof B['properties'], string>

/** What a resource is, as its author writes it: its path, its fields and rules, and what HTTP may do with it. */
export interface ResourceOptions<B extends TObject = TObject> {
  /** `/notes`: also names its scopes (`notes:read`), its report and its table. */
  path: `/${string}`
  /** The singular, as events name it: `note` for `note.created`. */
  noun: string
  /** All six without it. */
  operations?: readonly Operation[]
  /** The body of create and replace; its fields are the table's columns. A field's `default` is stored where it is left out. */
  body: B
  /** Everybody may read, unless the service closes its catalogue; then there is no scope for reading. */
  publicRead?: boolean
  /** Fields found by equality; text without regard to case and Unicode form. */
  filters?: readonly FieldOf<B>[]
  /** Numbers with `minX` and `maxX` parameters; days and instants with `xAfter` and `xBefore`. */
  ranges?: readonly FieldOf<B>[]
  /** Text fields that `q` looks into. */
  search?: readonly FieldOf<B>[]
  /** Fields to sort by, besides id, createdAt, updatedAt and every required filter; required ones, or text, which sorts as empty where it is absent. */
  sorts?: readonly FieldOf<B>[]
  /** Fields of which no two rows have the same value; text without regard to case and Unicode form. */
  unique?: readonly FieldOf<B>[]
  /** What an item of a list has; everything without it. */
  listed?: readonly (FieldOf<B> | 'id' | 'createdAt' | 'updatedAt')[]
  /** Fields that only some callers see, in a single resource only; reports and events never have them. */
  hides?: { fields: readonly FieldOf<B>[]; unless: (caller: Caller, id: number) => boolean }
  /** Scopes besides the two it has, with what each allows in plain words. */
  scopes?: Readonly<Record<`${string}:${string}`, string>>
  links?: (row: Row) => Record<string, Link>
}

/** A resource as the service works with it: checked, and nothing left out. */
export interface Declaration {
  path: `/${string}`
  /** The path without its slash. */
  name: string
  noun: string
  table: string
  operations: readonly Operation[]
  body: TObject
  /** The body as clients send it: fields with a default may be left out. */
  input: TObject
  /** How the values of each field are kept. */
  kinds: Readonly<Record<string, ColumnKind>>
  publicRead: boolean
  filters: readonly string[]
  ranges: readonly string[]
  search: readonly string[]
  sorts: readonly string[]
  unique: readonly string[]
  /** Text fields with a folded companion. */
  folded: readonly string[]
  /** Those of them whose companion is empty, and not null, where the field is absent: lists are sorted by them. */
  blank: readonly string[]
  listed?: readonly string[]
  hides?: { fields: readonly string[]; unless: (caller: Caller, id: number) => boolean }
  /** Every scope it brings, with what it allows. */
  scopes: Readonly<Record<string, string>>
  /** The scope that reading takes; null where reading is public. */
  readScope: string | null
  links?: (row: Row) => Record<string, Link>
}

/** A change of one row that a guard judges; `values` is null for a removal. */
export interface GuardedChange {
  id: number
  values: Readonly<Record<string, unknown>> | null
  caller: Caller
}

/** Rules for the changes of rows that depend on more than their table; kept in the transaction of each change. */
export interface Guard {
  /** What removals can be refused with, besides 403. */
  removalProblems: readonly ProblemCode[]
  /** Runs a change, which results in undefined where it met no row; throws a `Problem` where it must not be. */
  change: <T>(tx: Queryable, change: GuardedChange, run: () => Promise<T | undefined>) => Promise<T | undefined>
}

export interface CollectionOptions {
  db: Database
  queue: Queue
  now: () => number
  random: RandomBytes
  publicRead: boolean
  requireIfMatch: boolean
  guard?: Guard | undefined
}

/** A declared resource: its declaration, and the plugin that serves it under any version prefix. */
export interface Collection {
  declaration: Declaration
  plugin: FastifyPluginAsync<CollectionOptions>
}

/** What happens to a row of a resource, as its events name it. */
export type ChangeType = 'created' | 'updated' | 'deleted'

/** Tells of a change in the transaction that makes it; meant to be asked only when somebody listens. */
export type Announce = (
  tx: Queryable,
  happening: ChangeType,
  row: Row | { id: number },
  caller: Caller,
  now: string,
) => Promise<void>

/** Everything one route of a collection works with. */
export interface Served extends CollectionOptions {
  declaration: Declaration
  rows: Rows
  prefix: string
  fieldNames: string[]
  /** Fields that are instants: kept in UTC. */
  instants: string[]
  /** Answers to reads of one row that can be sent again. */
  representations: Representations
  /** A body with the defaults of what it leaves out. */
  complete: (body: Record<string, unknown>) => Record<string, unknown>
  /** Checks a body as create and replace do. */
  check: ReturnType<typeof inputValidator>
  show: (row: Row, request: FastifyRequest) => Revised
  /** Tells of a change that is heard, in the transaction that makes it. */
  announce: Announce
}
