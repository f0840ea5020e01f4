import type { TSchema } from 'typebox'
import { type FieldError, Problem } from '../../http/problems/problem.ts'
import { passesNone, type RelationStep, type RowTest, relatedTest } from '../../storage/rows/row-test.ts'
import type { Declaration } from '../declaration.ts'
import { maxQuery, parameterNames, type QueryGrammar, type RelatedGrammar } from './grammar.ts'
import { readComparison, readEnumeration } from './read-comparisons.ts'
import { comparisonSchema, documentedText, equalitySchema } from './schemas.ts'

/** The condition that a query places on the rows of one relation. */
export interface RelatedFilter {
  step: RelationStep
  declaration: Declaration
  test: RowTest
}

/** The related rows that a caller can read. */
export interface ReachedRows {
  /** The test for rows that the caller can read. */
  read: RowTest
  /** Replaces computed fields in a test with the conditions that define them. */
  resolve: (test: RowTest) => RowTest
  /** Today's date in the service's time zone if a computed condition depends on it; otherwise undefined. */
  day: string | undefined
}

/** The relations that a query follows, by name. */
export type Reached = ReadonlyMap<string, ReachedRows>

type RelatedFilters = QueryGrammar['related']

/** Reads the filters on related rows, combined by relation. Throws INVALID_INPUT, which lists every error. */
export function readRelatedFilters(query: Readonly<Record<string, unknown>>, filters: RelatedFilters): RelatedFilter[] {
  const errors: FieldError[] = []
  const tests = new Map<RelatedGrammar, RowTest[]>()
  let parameters = 0
  for (const [name, text] of Object.entries(query)) {
    const [relation = '', ...rest] = name.split('.')
    const along = rest.length > 0 ? filters.get(relation) : undefined
    if (along === undefined || typeof text !== 'string') continue
    if (++parameters > maxQuery.parameters) {
      errors.push({
        field: name,
        message: `exceeds the limit: at most ${maxQuery.parameters} parameters may follow relations`,
      })
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
  return passesNone
}

/**
 * Restricts the tests of related rows to rows that the caller can read. Must come before any simplification: otherwise,
 * a test that every related row passes would be reduced to a test for the reference itself, which passes even if the
 * caller cannot read the related row.
 */
export function restrictRelated(test: RowTest, reached: Reached): RowTest {
  if ('any' in test) return { any: test.any.map((part) => restrictRelated(part, reached)) }
  if ('all' in test) return { all: test.all.map((part) => restrictRelated(part, reached)) }
  if (!('along' in test)) return test
  const rows = reached.get(test.along.name)
  return rows ? relatedTest(test.along, { all: [rows.resolve(test.related), rows.read] }) : passesNone
}

/** Returns the query parameters for filters on related rows; `others` are the names of all other parameters. */
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
