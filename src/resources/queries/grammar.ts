import type { TObject } from 'typebox'
import type { RelationStep } from '../../storage/rows/row-test.ts'
import { choicesOf } from '../column-types.ts'
import { shownDeclaration } from '../computed/options.ts'
import { type ConditionDeclaration, type ConditionField, conditionFields, relationStep } from '../conditions/fields.ts'
import { operatorsOf } from '../conditions/values.ts'
import type { Declaration, Relation } from '../declaration.ts'

/** A query parameter with an operator, such as `status[in]`. */
export interface ComparisonParameter {
  field: ConditionField
  /** The operator, as in conditions: `in`, `not`, `null`, `prefix`, `from`, `to`, `before` or `after`. */
  operator: string
}

/** A relation by which a list can be filtered: `customer.name`, `customer.name[prefix]`. */
export interface RelatedGrammar {
  step: RelationStep
  declaration: Declaration
  /** The filters of the related collection. */
  grammar: QueryGrammar
}

/** The syntax of a list's query, except equality, ranges and search. */
export interface QueryGrammar {
  /** The fields that can be filtered by. */
  fields: ReadonlyMap<string, ConditionField>
  parameters: ReadonlyMap<string, ComparisonParameter>
  /** The enumerations whose filter accepts several comma-separated values. */
  lists: ReadonlyMap<string, ConditionField>
  /**
   * The relations by which the list can be filtered, by name. Relations to many rows are not included; they have lists
   * of their own.
   */
  related: ReadonlyMap<string, RelatedGrammar>
  /** True if the list has the parameter `or`; false if a field is named `or`. */
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
  table: string
  /** The relations that filters may follow; none by default. */
  relations?: readonly Relation[]
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
  const related = relatedGrammars(declaration)
  return {
    fields,
    parameters: new Map(parameters),
    lists: new Map([...fields].filter(([name, field]) => filters.includes(name) && isListable(field))),
    related,
    hasAlternatives: fields.size + related.size > 0 && !fields.has('or'),
  }
}

function relatedGrammars({ table, columns, relations = [] }: FilteredDeclaration): QueryGrammar['related'] {
  const filtered = relations.filter(({ isMany, declaration }) => !isMany && declaration.filters.length > 0)
  return new Map(
    filtered.map(({ name, field, declaration }) => {
      const step = relationStep({ name, field, table, columns, target: declaration })
      return [name, { step, declaration, grammar: grammarOf({ ...shownDeclaration(declaration), ranges: [] }) }]
    }),
  )
}

/** Returns true for an enumeration of strings without commas. */
const isListable = ({ schema }: ConditionField): boolean =>
  choicesOf(schema)?.every((choice) => typeof choice === 'string' && !choice.includes(',')) ?? false

/** Returns the names that can begin an alternative in `or`. */
export const parameterNames = ({ fields, parameters, related }: QueryGrammar): string[] => [
  ...fields.keys(),
  ...[...parameters].filter(([, { operator }]) => operator !== 'in').map(([name]) => name),
  ...[...related].flatMap(([relation, { grammar }]) => parameterNames(grammar).map((name) => `${relation}.${name}`)),
]
