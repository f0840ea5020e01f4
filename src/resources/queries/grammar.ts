import type { TObject } from 'typebox'
import { choicesOf } from '../column-types.ts'
import { type ConditionDeclaration, type ConditionField, conditionFields } from '../conditions/fields.ts'
import { operatorsOf } from '../conditions/values.ts'

/** A query parameter with an operator, such as `status[in]`. */
export interface ComparisonParameter {
  field: ConditionField
  /** As in conditions: `in`, `not`, `null`, `prefix`, `from`, `to`, `before`, `after`. */
  operator: string
}

/** What the query of a list can say besides equality, ranges and search. */
export interface QueryGrammar {
  /** The fields to filter by. */
  fields: ReadonlyMap<string, ConditionField>
  parameters: ReadonlyMap<string, ComparisonParameter>
  /** The enumerations whose filter accepts several values, separated by commas. */
  lists: ReadonlyMap<string, ConditionField>
  /** True if there is the parameter `or`; a field of that name replaces it. */
  hasAlternatives: boolean
}

/** Maximum size of a query; `characters` are those of a value, `alternativesLength` those of `or`. */
export const maxQuery = {
  parameters: 20,
  values: 50,
  characters: 300,
  alternatives: 10,
  alternativesLength: 1_000,
} as const

interface FilteredDeclaration extends ConditionDeclaration {
  body: TObject
  filters: readonly string[]
  ranges: readonly string[]
}

/** The grammar of a resource's list. A required field has no `[null]`, because no row lacks it. */
export function grammarOf(declaration: FilteredDeclaration): QueryGrammar {
  const { body, filters, ranges } = declaration
  const known = conditionFields(declaration, 'folded')
  const names = [...new Set([...filters, ...ranges])]
  const fields = new Map(names.map((name) => [name, known[name] as ConditionField]))
  const parameters = [...fields].flatMap(([name, field]) =>
    operatorsOf(field)
      .filter((operator) => operator !== 'null' || !body.required?.includes(name))
      .map((operator): [string, ComparisonParameter] => [`${name}[${operator}]`, { field, operator }]),
  )
  return {
    fields,
    parameters: new Map(parameters),
    lists: new Map([...fields].filter(([name, field]) => filters.includes(name) && isListable(field))),
    hasAlternatives: fields.size > 0 && !fields.has('or'),
  }
}

/** True for an enumeration of texts without commas. */
const isListable = ({ schema }: ConditionField): boolean =>
  choicesOf(schema)?.every((choice) => typeof choice === 'string' && !choice.includes(',')) ?? false

/** The names that an alternative of `or` can begin with. */
export const parameterNames = ({ fields, parameters }: QueryGrammar): string[] => [
  ...fields.keys(),
  ...[...parameters].filter(([, { operator }]) => operator !== 'in').map(([name]) => name),
]
