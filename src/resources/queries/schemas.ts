import { type TSchema, Type } from 'typebox'
import { decimalFormOf, decimalPattern } from '../../http/decimal.ts'
import { documentedAs, undocumented } from '../../http/partial-schema.ts'
import { choicesOf, columnType, columnTypes, textParameter } from '../column-types.ts'
import type { ConditionField } from '../conditions/fields.ts'
import { isDayField } from '../conditions/values.ts'
import { type ComparisonParameter, maxQuery, parameterNames, type QueryGrammar } from './grammar.ts'

const sentences: Readonly<Record<string, (field: string) => string>> = {
  in: (field) =>
    `Only items with one of these values of ${field}, at most ${maxQuery.values}; quote a value that contains a comma`,
  not: (field) => `Only items with another ${field}, or without one`,
  null: (field) => `true: only items without ${field}; false: only items with it`,
  prefix: (field) => `Only items whose ${field} begins with this`,
  from: (field) => `Only items whose ${field} is this or more`,
  to: (field) => `Only items whose ${field} is this or less`,
  before: (field) => `Only items whose ${field} is less than this`,
  after: (field) => `Only items whose ${field} is more than this`,
}

/**
 * Returns the schemas of the operator parameters (such as `status[in]`) and of `or`; `others` are the names of all
 * other parameters.
 */
export function comparisonSchemas(
  grammar: QueryGrammar,
  example: Readonly<Record<string, unknown>>,
  others: readonly string[],
): Record<string, TSchema> {
  const parameters = [...grammar.parameters].map(([name, parameter]) => [
    name,
    documentedText(name, comparisonSchema(parameter, example), others),
  ])
  return {
    ...Object.fromEntries(parameters),
    ...(grammar.hasAlternatives && { or: asText(documentedAs(documentedAlternatives(grammar, example))) }),
  }
}

/**
 * Returns the schema of a parameter with an operator or on a related row. The parameter is documented unless its name
 * in generated clients would conflict with another parameter's.
 */
export const documentedText = (name: string, schema: object, others: readonly string[]) =>
  asText(isNameTaken(name, others) ? undocumented : documentedAs(schema))

/** Accepts any text, because the parser reports errors, with one message per parameter. */
const asText = (documented: { $defs: object }) => Type.Optional(Type.String(documented))

/**
 * Returns true if two different parameters, such as `due[after]` and `dueAfter`, would have the same name in generated
 * clients, which remove brackets and dots.
 */
const isNameTaken = (name: string, others: readonly string[]) =>
  others.includes(name.replace(/[[.](\w)/g, (_, first: string) => first.toUpperCase()).replace(']', ''))

/**
 * Returns the documentation for the filter by a field of a related collection; `along` is the name of the relation
 * followed by a dot.
 */
export function equalitySchema(field: ConditionField, isList: boolean, along: string): object {
  const several = isList ? '; several values separated by commas' : ''
  const description = `Only items with this ${along}${field.on.field}${several}`
  return { ...(isList ? valueSchema(textParameter('')) : documentedValue(field)), description }
}

/** Returns the documentation for a parameter with an operator; lists are arrays, which clients join with commas. */
export function comparisonSchema(
  { field, operator }: ComparisonParameter,
  example: Readonly<Record<string, unknown>>,
  along = '',
): object {
  const name = field.on.field
  const description = sentences[operator]?.(along + name)
  const value = Object.hasOwn(example, name) ? example[name] : undefined
  if (operator === 'null') return { ...valueSchema(columnTypes.boolean.parameter('')), description }
  const one = documentedValue(field)
  if (operator !== 'in') return { ...one, description, ...(value !== undefined && { examples: [value] }) }
  const items = { type: 'array', items: one, maxItems: maxQuery.values }
  return { ...items, description, ...(value !== undefined && { examples: [[value]] }) }
}

/** Returns the documented schema of one value. */
function documentedValue(field: ConditionField): object {
  const choices = choicesOf(field.schema)
  if (choices !== undefined) return { type: field.kind === 'exact' ? 'string' : field.kind, enum: choices }
  if (isDayField(field)) return { type: 'string', format: 'date' }
  return valueSchema(columnType(field.kind).parameter('', field.schema))
}

function valueSchema(schema: TSchema): object {
  const { description: _, ...rest } = schema as { description?: string }
  return rest
}

const text = '("([^\\x00-\\x1f\\x7f-\\x9f"]|"")*"|[^\\x00-\\x1f\\x7f-\\x9f,]*)'
const day = '[0-9]{4}-[0-9]{2}-[0-9]{2}'
/** The pattern of a value, by the kind of its field. */
const valuePatterns: Readonly<Record<string, string>> = {
  integer: '-?(0|[1-9][0-9]{0,14})',
  reference: '[1-9][0-9]{0,14}',
  uuid: '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}',
  number: '-?(0|[1-9][0-9]{0,14})([.][0-9]{1,15})?',
  boolean: '(true|false)',
  instant: `${day}(T[0-9:.]+(Z|[+-][0-9:]+))?`,
}

const forms = 'field:value or field[operator]:value, separated by commas'

/** Returns the documentation for `or`. Its pattern cannot reject days that do not exist, such as 30 February. */
function documentedAlternatives(grammar: QueryGrammar, example: Readonly<Record<string, unknown>>) {
  const names = Map.groupBy(parameterNames(grammar), (name) => valuePattern(name, grammar))
  const one = [...names].map(
    ([value, of]) => `(${of.map((name) => name.replace(/[[\].]/g, '\\$&')).join('|')}):${value}`,
  )
  const alternative = `(${one.join('|')})`
  const examples = exampleOf(grammar, example)
  return {
    type: 'string',
    maxLength: maxQuery.alternativesLength,
    description: `Only items for which one of these holds: up to ${maxQuery.alternatives} of ${forms}`,
    pattern: `^${alternative}(,${alternative}){0,${maxQuery.alternatives - 1}}$`,
    ...(examples !== undefined && { examples: [examples] }),
  }
}

function valuePattern(name: string, { fields, parameters, related }: QueryGrammar): string {
  const [relation = '', ...rest] = name.split('.')
  const along = rest.length > 0 ? related.get(relation) : undefined
  if (along) return valuePattern(rest.join('.'), along.grammar)
  const field = fields.get(name) ?? (parameters.get(name) as ComparisonParameter).field
  if (parameters.get(name)?.operator === 'null') return '(true|false)'
  const choices = choicesOf(field.schema)
  const decimal = decimalFormOf(field.schema)
  if (decimal) return decimalPattern({ ...decimal, minimum: '-' }).replace(/^\^|\$$/g, '')
  if (choices !== undefined) return `(${choices.map((choice) => escaped(choice)).join('|')})`
  return isDayField(field) ? day : (valuePatterns[field.kind] ?? text)
}

const escaped = (choice: unknown) =>
  String(choice).replace(/[\\^$.*+?()[\]{}|/-]/g, (sign) => `\\x${sign.charCodeAt(0).toString(16)}`)

/**
 * Returns an example that combines the fields with examples, such as `name:Desk lamp,price:24.5`; undefined if there
 * are none.
 */
function exampleOf({ fields }: QueryGrammar, example: Readonly<Record<string, unknown>>): string | undefined {
  const known = [...fields.keys()].filter((name) => Object.hasOwn(example, name))
  return known.length > 0 ? known.map((name) => `${name}:${quoted(example[name])}`).join(',') : undefined
}

const quoted = (value: unknown) =>
  /[,"]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value)
