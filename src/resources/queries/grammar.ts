import type { TObject } from 'typebox'
import { choicesOf } from '../column-types.ts'
import { type ConditionDeclaration, type ConditionField, conditionFields } from '../conditions/fields.ts'
import { operatorsOf } from '../conditions/values.ts'

/** A query parameter with an operator, such as `status[in]`. */
export interface ComparisonParameter {
  field: ConditionField
  /** The operator, as in conditions: `in`, `not`, `null`, `prefix`, `from`, `to`, `before` or `after`. */
  operator: string
}

/** What a list query may contain besides equality, ranges and search. */
export interface QueryGrammar {
  /** The fields that can be filtered by. */
  fields: ReadonlyMap<string, ConditionField>
  parameters: ReadonlyMap<string, ComparisonParameter>
  /** The enumerations whose filter accepts several comma-separated values. */
  lists: ReadonlyMap<string, ConditionField>
  /** True if the parameter `or` exists; a field named `or` takes its place. */
  hasAlternatives: boolean
}

/** Limits on the size of a query; `characters` limits one value, `alternativesLength` limits `or`. */
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

/**
 * Returns the grammar of a resource's list queries. A required field has no `[null]`, because every row has a value.
 */
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

/** Returns true for an enumeration of strings without commas. */
const isListable = ({ schema }: ConditionField): boolean =>
  choicesOf(schema)?.every((choice) => typeof choice === 'string' && !choice.includes(',')) ?? false

/** Returns the names that can begin an alternative in `or`. */
export const parameterNames = ({ fields, parameters }: QueryGrammar): string[] => [
  ...fields.keys(),
  ...[...parameters].filter(([, { operator }]) => operator !== 'in').map(([name]) => name),
]
