import type { Kysely } from 'kysely'
import type { Static, TObject, TSchema } from 'typebox'
import type { BodyOf, Condition, FieldsOf } from '../resources/conditions/condition.ts'
import type { Collection } from '../resources/declaration.ts'
import type { RelatedFields } from '../resources/resource-options.ts'
import type { IdOf, IdType } from '../storage/ids.ts'
import type { EventOfRow, EventOfScope } from './event.ts'
import type { Made as MadeCode } from './made.ts'

type Made<Names extends string> = { readonly [Name in Names]: string | number | boolean }

/** A row as code sees it: every stored and computed field, including those that no response contains. */
export type CodeRow<B extends TObject, Computed extends string, Derived extends string, Ids extends IdType> = FieldsOf<
  B,
  Ids
> &
  Made<Computed> & { readonly createdBy: string } & { readonly [Name in Derived]?: unknown }

/** The values of a new row. Fields that `set` or `defaults` fill are optional. */
export type NewRow<B extends TObject, Given extends string, Ids extends IdType> = Omit<BodyOf<B, Ids>, Given> &
  Partial<Pick<BodyOf<B, Ids>, Given & keyof BodyOf<B, Ids>>>

/** The fields to change; null removes a value. */
export type Changes<B extends TObject, Ids extends IdType> = {
  readonly [Field in keyof BodyOf<B, Ids>]?: BodyOf<B, Ids>[Field] | null
}

/** A condition on the rows of a collection. */
export type RowCondition<B extends TObject, Computed extends string, Ids extends IdType> = Condition<
  FieldsOf<B, Ids> & { createdBy: string } & Made<Computed>,
  RelatedFields<B, Ids>
>

type RelationOf<B extends TObject, Ids extends IdType> = Extract<keyof RelatedFields<B, Ids>, string>

/** The related rows that `expand` adds to a row; undefined for an optional reference without a value. */
type Expanded<B extends TObject, Ids extends IdType, Names extends RelationOf<B, Ids>> = {
  readonly [Name in Names]: object extends Pick<BodyOf<B, Ids>, `${Name}Id` & keyof BodyOf<B, Ids>>
    ? RelatedFields<B, Ids>[Name] | undefined
    : RelatedFields<B, Ids>[Name]
}

/** When to start a job, and whether to skip it if one with the same key is waiting. */
export interface EnqueueOptions {
  /** The delay as text, such as `'14 days'`, or in milliseconds; or the earliest start time. */
  after?: string | number | Date
  /** Adds nothing if a job with the same name and key is waiting. */
  key?: string
}

/** The part of a job's type that `enqueue` uses. */
export interface Enqueued<Input> extends MadeCode<'job'> {
  readonly name: string
  /** Exists only for type inference; never set. */
  readonly '~input'?: Input
}

/** The log of the author's code. Each line contains the name of the code that wrote it. */
export interface CodeLog {
  info: (fields: object, message: string) => void
  warn: (fields: object, message: string) => void
  error: (fields: object, message: string) => void
}

/** The methods that read and write rows. */
export interface RowContext {
  /**
   * Reads a row; undefined if there is none. With `lock`, which needs a transaction, no other transaction can change
   * the row until this one ends.
   */
  find: <
    B extends TObject,
    C extends string,
    G extends string,
    D extends string,
    Ids extends IdType,
    const Names extends RelationOf<B, Ids> = never,
  >(
    of: Collection<B, C, G, D, Ids>,
    id: IdOf<NoInfer<Ids>>,
    options?: { lock?: boolean; expand?: readonly Names[] },
  ) => Promise<(CodeRow<B, C, D, Ids> & Expanded<B, Ids, Names>) | undefined>
  /** Reads rows in the order of their ids, page by page. */
  list: <B extends TObject, C extends string, G extends string, D extends string, Ids extends IdType>(
    of: Collection<B, C, G, D, Ids>,
    options?: { where?: RowCondition<B, C, NoInfer<Ids>>; limit?: number; lock?: boolean },
  ) => AsyncIterable<CodeRow<B, C, D, Ids>>
  count: <B extends TObject, C extends string, G extends string, D extends string, Ids extends IdType>(
    of: Collection<B, C, G, D, Ids>,
    where?: RowCondition<B, C, NoInfer<Ids>>,
  ) => Promise<number>
  /** Adds a row and returns it. */
  insert: <B extends TObject, C extends string, G extends string, D extends string, Ids extends IdType>(
    into: Collection<B, C, G, D, Ids>,
    row: NewRow<B, NoInfer<G>, NoInfer<Ids>>,
  ) => Promise<CodeRow<B, C, D, Ids>>
  /** Changes fields of a row and returns it. Throws if there is no such row. */
  update: <B extends TObject, C extends string, G extends string, D extends string, Ids extends IdType>(
    of: Collection<B, C, G, D, Ids>,
    id: IdOf<NoInfer<Ids>>,
    changes: Changes<B, NoInfer<Ids>>,
  ) => Promise<CodeRow<B, C, D, Ids>>
  /** Deletes a row. Throws if there is no such row. */
  remove: <B extends TObject, C extends string, G extends string, D extends string, Ids extends IdType>(
    of: Collection<B, C, G, D, Ids>,
    id: IdOf<NoInfer<Ids>>,
  ) => Promise<void>
}

/** The context of jobs and schedules. Each write outside `transaction` has its own transaction. */
export interface JobContext extends RowContext {
  /** Sends an event after the commit. An event of a collection requires the row that the event is about. */
  emit: {
    <S extends TSchema, Id>(event: EventOfRow<S, Id>, row: { readonly id: Id }, data: Static<NoInfer<S>>): void
    <S extends TSchema>(event: EventOfScope<S>, data: Static<NoInfer<S>>): void
  }
  /** Adds a job, which starts after the commit. */
  enqueue: <Input>(job: Enqueued<Input>, input: NoInfer<Input>, options?: EnqueueOptions) => void
  /** Returns the next number of a counter. In a transaction, this locks the counter until the transaction ends. */
  next: (name: string) => Promise<number>
  /** Runs several calls in one transaction. In hooks and actions, the calls join the current transaction. */
  transaction: <T>(work: (context: this) => Promise<T>) => Promise<T>
  /** Returns the current time. */
  clock: () => Date
  log: CodeLog
  /** Aborted when the code should stop. */
  signal: AbortSignal
  /** Sends a request; only to addresses that webhooks may use, and only outside transactions. */
  fetch: typeof fetch
  /**
   * A Kysely instance for all other statements. In a transaction, they are part of it. Column names are as in the
   * database.
   */
  db: Kysely<Record<string, Record<string, unknown>>>
}

/** The context of hooks and actions, which run in the current transaction. */
export interface CodeContext extends JobContext {
  /**
   * Reads and writes rows with the rights of the caller: access rules, `locked`, `immutable` and `set` apply. A row
   * that the caller cannot read is treated as missing. A forbidden write makes the request fail, for example with 403.
   */
  asCaller: RowContext
}
