import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { TObject } from 'typebox'
import type { Database } from '../db/open.ts'
import type { Row, Rows } from '../db/rows.ts'
import type { inputValidator } from '../http/bodies.ts'
import type { Revised } from '../http/conditional.ts'
import type { Caller } from '../http/identify.ts'

export type Operation = 'list' | 'create' | 'read' | 'replace' | 'patch' | 'remove'

/** A link of a representation; `href` is relative to the API version. */
export interface Link {
  href: string
  method?: string
}

/** What a resource is: its path, its fields and rules, and what HTTP may do with it. */
export interface Declaration {
  path: `/${string}`
  table: 'users' | 'products' | 'books'
  /** The singular, as events name it. */
  noun: string
  operations: readonly Operation[]
  /** The body of create and replace; its fields are the table's columns. */
  body: TObject
  /** Everybody may read, unless the service closes its catalogue. */
  publicRead?: boolean
  /** Fields found by equality; text without regard to case and Unicode form. */
  filters?: readonly string[]
  /** Number fields with `minX` and `maxX` parameters. */
  ranges?: readonly string[]
  /** Text fields that `q` looks into; also kept folded. */
  search: readonly string[]
  /** Text fields kept folded besides those searched. */
  folded?: readonly string[]
  sorts: readonly string[]
  /** The only field that two rows may not share, compared folded. */
  unique?: string
  /** Fields of an item of a list; all without it. */
  listed?: readonly string[]
  /** Fields of a single resource that only some callers see. */
  hides?: { fields: readonly string[]; unless: (caller: Caller, id: number) => boolean }
  links?: (row: Row) => Record<string, Link>
}

export interface CollectionOptions {
  db: Database
  now: () => number
  publicRead: boolean
  requireIfMatch: boolean
}

/** A declared resource: its declaration, and the plugin that serves it under any version prefix. */
export interface Collection {
  declaration: Declaration
  plugin: FastifyPluginAsync<CollectionOptions>
}

/** Everything one route of a collection works with. */
export interface Served extends CollectionOptions {
  declaration: Declaration
  rows: Rows
  prefix: string
  fieldNames: string[]
  /** Checks a body as create and replace do. */
  check: ReturnType<typeof inputValidator>
  show: (row: Row, request: FastifyRequest) => Revised
}
