import { type TObject, Type } from 'typebox'
import { DefinitionError } from '../../startup-errors.ts'
import type { IdType } from '../../storage/ids.ts'
import { passesAll, passesNone, type RowTest } from '../../storage/rows/row-test.ts'
import { ownConditionFields } from '../computed/computed-fields.ts'
import { listConditions } from '../computed/list-conditions.ts'
import { shownDeclaration } from '../computed/options.ts'
import { conditionTest } from '../conditions/conditions.ts'
import type { ConditionFields } from '../conditions/fields.ts'
import { todayIn } from '../conditions/today.ts'
import type { Collection, Declaration } from '../declaration.ts'
import { reportOf } from '../representation.ts'
import type { ReportOptions } from './options.ts'
import { declaredParameters } from './parameters.ts'
import type { ResourceGroupedColumn } from './report-columns.ts'
import { optionErrors, readColumns } from './report-rules.ts'

/** Not exported, so that a report created by another installed copy of this package is rejected. */
const brand = Symbol('created by report()')

/** A report on the rows of a resource, with declared parameters. */
export interface Report {
  readonly [brand]: true
  name: string
  /** The resource that the report reads. */
  of: Declaration
  title?: string
  /** The grouped columns; none if the report contains the rows themselves. */
  columns: readonly ResourceGroupedColumn[]
  /** The columns as declared. */
  grouping: Pick<ReportOptions, 'group' | 'show'>
  /** `read` validates parameters and fills in their defaults; `parameters` is their JSON Schema. */
  input: ReturnType<typeof declaredParameters>
  /** Returns the declared condition for validated parameters. */
  where: (parameters: never) => unknown
}

// A report without `parameters` accepts none; the type `object` would allow any name.
// biome-ignore lint/complexity/noBannedTypes: the properties of an empty object schema
type NoParameters = TObject<{}>

/**
 * Declares a report on the rows of a resource: its parameters, the rows that it selects, and how it groups and
 * aggregates them. Throws a `DefinitionError` that lists every error in the declaration.
 */
export function report<
  B extends TObject,
  Computed extends string = never,
  P extends TObject = NoParameters,
  Ids extends IdType = 'integer',
>(
  of: Collection<B, Computed, string, string, Ids>,
  options: ReportOptions<B, P, NoInfer<Computed>, NoInfer<Ids>>,
): Report {
  const declaration = of?.declaration as Declaration | undefined
  const { name, title, parameters = Type.Object({}), where = () => true, ...grouping } = Object(options)
  const place = `report '${String(name)}'`
  if (declaration === undefined) throw new DefinitionError([`${place}: the first argument must be a collection`])
  const { columns, errors } = readColumns(grouping, namesOf(declaration))
  const all = [...optionErrors(Object(options)), ...errors]
  if (all.length > 0) throw new DefinitionError(all.map((error) => `${place}: ${error}`))
  return Object.freeze({
    ...{ [brand]: true as const, name, of: declaration, ...(title !== undefined && { title }) },
    ...{ columns: Object.freeze(columns), grouping, input: declaredParameters(parameters), where },
  })
}

/** Returns true for values created by `report` in this installation of the package. */
export const isReport = (value: unknown): value is Report =>
  typeof value === 'object' && value !== null && brand in value

/** Adapts a report to its resource's stored declaration, which has the column names in the database. */
export function storedReport(one: Report, of: Declaration): Report {
  const { columns } = readColumns(one.grouping, namesOf(of))
  return Object.freeze({ ...one, of, columns: Object.freeze(columns) })
}

/** Returns a resource's fields, and those that a report's columns cannot name. */
const namesOf = (declaration: Declaration) => ({
  fields: fieldsOf(declaration),
  concealed: declaration.concealed,
  conditions: Object.keys(declaration.computed.whens),
})

/** Returns the fields that conditions and, with exceptions, columns can name. */
const fieldsOf = (declaration: Declaration): ConditionFields =>
  ownConditionFields(shownDeclaration(declaration), declaration.access !== undefined)

/** Converts a report to the form that the report service uses. `zone` is the time zone of `'today'`. */
export function declaredReport(one: Report, zone: string) {
  const { name, title, of, columns, input, where } = one
  const fields = fieldsOf(of)
  const matching = (parameters: Readonly<Record<string, unknown>>, now: () => number): RowTest => {
    try {
      const result = where(structuredClone(parameters) as never)
      if (typeof result === 'boolean') return result ? passesAll : passesNone
      const test = conditionTest(result, { fields, today: todayIn({ zone, now }) })
      return listConditions(of.computed, { zone, now })?.resolve(test) ?? test
    } catch (error) {
      throw new Error(`The condition of the report ${name} failed`, { cause: error })
    }
  }
  const { table, columns: storedAs, readScope: scope } = of
  return {
    ...{ name, scope, table, storedAs, ...input, matching, ...(title !== undefined && { title }) },
    ...(columns.length > 0 ? { grouped: columns } : { columns: reportOf(of).columns }),
  }
}
