import type { TSchema } from 'typebox'
import { type FieldError, Problem } from '../../http/problems/problem.ts'
import { type RelationStep, type RowTest, relatedTest } from '../../storage/rows/row-test.ts'
import { shownDeclaration } from '../computed/declare.ts'
import { relationStep } from '../conditions/fields.ts'
import type { Declaration, Relation } from '../declaration.ts'
import { grammarOf, maxQuery, parameterNames, type QueryGrammar } from './grammar.ts'
import { readComparison, readEnumeration } from './read-comparisons.ts'
import { comparisonSchema, documentedText, equalitySchema } from './schemas.ts'

/** A relation by which a list can be filtered: `customer.name`, `customer.name[prefix]`. */
interface RelatedGrammar {
  step: RelationStep
  declaration: Declaration
  /** The filters of the related collection. */
  grammar: QueryGrammar
}

/** What a query requires of each row's related row. */
export interface RelatedFilter {
  step: RelationStep
  declaration: Declaration
  test: RowTest
}

/**
 * The relations by which a list can be filtered, by name. Relations to many rows are not included; they have lists of
 * their own.
 */
export type RelatedFilters = ReadonlyMap<string, RelatedGrammar>

export function relatedFiltersOf(
  { table, columns }: Pick<Declaration, 'table' | 'columns'>,
  relations: readonly Relation[],
): RelatedFilters {
  const filtered = relations.filter(({ isMany, declaration }) => !isMany && declaration.filters.length > 0)
  return new Map(
    filtered.map(({ name, field, declaration }) => {
      const step = relationStep({ name, field, table, columns, target: declaration.table })
      return [name, { step, declaration, grammar: grammarOf({ ...shownDeclaration(declaration), ranges: [] }) }]
    }),
  )
}

/** Returns true if a query may have filters along relations. */
export function hasRelatedFilters(query: Readonly<Record<string, unknown>>): boolean {
  for (const name in query) if (name.includes('.')) return true
  return false
}

/** Reads the filters along relations, combined by relation. Throws INVALID_INPUT, which lists every error. */
export function readRelatedFilters(query: Readonly<Record<string, unknown>>, filters: RelatedFilters): RelatedFilter[] {
  const errors: FieldError[] = []
  const tests = new Map<RelatedGrammar, RowTest[]>()
  let parameters = 0
  for (const [name, text] of Object.entries(query)) {
    const [relation = '', ...rest] = name.split('.')
    const along = rest.length > 0 ? filters.get(relation) : undefined
    if (along === undefined || typeof text !== 'string') continue
    if (++parameters > maxQuery.parameters) {
      errors.push({ field: name, message: `is one too many: at most ${maxQuery.parameters} follow relations` })
      break
    }
    tests.set(along, [...(tests.get(along) ?? []), readFilter(along, rest.join('.'), text, name, errors)])
  }
  if (errors.length > 0) throw new Problem('INVALID_INPUT', 'The query is malformed', { errors })
  return [...tests].map(([{ step, declaration }, all]) => ({
    step,
    declaration,
    test: all.length === 1 ? (all[0] as RowTest) : { all },
  }))
}

function readFilter(
  { grammar, declaration }: RelatedGrammar,
  parameter: string,
  text: string,
  name: string,
  errors: FieldError[],
): RowTest {
  const compared = grammar.parameters.get(parameter)
  if (compared) return readComparison(compared.field, compared.operator, text, name, errors)
  const list = grammar.lists.get(parameter)
  if (list) return readEnumeration(list, text, name, errors)
  const field = grammar.fields.get(parameter)
  if (field) return readComparison(field, '=', text, name, errors)
  errors.push({
    field: name,
    message: `is not a filter of ${declaration.path}: use ${parameterNames(grammar).join(', ')}`,
  })
  return { any: [] }
}

/** Returns the test for rows whose related row matches a filter and can be read by the caller. */
export const relatedFilterTest = ({ step, test }: RelatedFilter, read: RowTest): RowTest =>
  relatedTest(step, { all: [test, read] })

/** Returns the query parameters for filters along relations; `others` are the names of all other parameters. */
export function relatedSchemas(filters: RelatedFilters, others: readonly string[]): Record<string, TSchema> {
  const schemas = [...filters].flatMap(([relation, { grammar }]) => {
    const along = `${relation}.`
    const equal = [...grammar.fields].map(([name, field]) => [
      along + name,
      equalitySchema(field, grammar.lists.has(name), along),
    ])
    const compared = [...grammar.parameters].map(([name, one]) => [along + name, comparisonSchema(one, {}, along)])
    return [...equal, ...compared] as [string, object][]
  })
  return Object.fromEntries(schemas.map(([name, schema]) => [name, documentedText(name, schema, others)]))
}
